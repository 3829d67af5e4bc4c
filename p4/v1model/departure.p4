// Where a packet leaves, and what it is when it does.

control Departure(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    @name(".forward_packets")
    direct_counter(CounterType.packets_and_bytes) forward_packets;
    @id(ID_PREEMPTED)
    @name(".preempted")
    counter(JOBS, CounterType.packets) preempted;
    @id(ID_SATURATED)
    @name(".saturated")
    counter(JOBS, CounterType.packets) saturated;

    @name(".drop")
    action drop() {
        mark_to_drop(standard);
    }

    @name(".to_port")
    action to_port(bit<9> port, bit<48> mac) {
        standard.egress_spec = port;
        h.ethernet.dst = mac;
    }
    @id(ID_FORWARD)
    @name(".forward")
    table forward {
        key = { h.ipv4.dst: lpm @name("dst"); }
        actions = { to_port; drop; }
        const default_action = drop;
        size = ROUTES;
        counters = forward_packets;
    }

    @name(".to_group")
    action to_group(bit<16> group) {
        standard.mcast_grp = group;
    }
    @id(ID_GROUP)
    @name(".group")
    table multicast {
        key = { h.ipv4.dst: exact @name("dst"); }
        actions = { to_group; drop; }
        const default_action = drop;
        size = ROUTES;
    }

    @name(".to_link")
    action to_link(bit<9> port) {
        standard.egress_spec = port;
    }
    @name(".flood")
    action flood(bit<16> group) {
        standard.mcast_grp = group;
        m.flooded = true;
    }
    @id(ID_BRIDGE)
    @name(".bridge")
    table bridge {
        key = { h.ethernet.dst: exact @name("mac"); }
        actions = { to_link; flood; drop; }
        const default_action = drop;
        size = ROUTES;
    }

    @name(".send_up")
    action send_up(bit<8> index, bit<9> port, bit<48> mac, bit<32> src, bit<32> dst, bit<16> first_port, bit<16> port_mask,
                   bit<32> cookie, bit<32> key) {
        m.content_index = index;
        m.rewritten = true;
        standard.egress_spec = port;
        h.ethernet.dst = mac;
        h.ipv4.src = src;
        h.ipv4.dst = dst;
        h.spillway.priority = 0;
        h.spillway.job = m.content_job;
        h.spillway.cookie = cookie;
        h.spillway.seq = m.content_id ^ key;
        h.udp.dst = first_port + (h.spillway.seq[21:6] & port_mask);
        h.udp.checksum = 0;
    }
    @id(ID_UPLINK)
    @name(".uplink")
    table uplink {
        key = { m.content_job: exact @name("job"); }
        actions = { send_up; drop; }
        const default_action = drop;
        size = JOBS;
    }

    @name(".to_workers")
    action to_workers(bit<16> group, bit<48> src_mac, bit<48> dst_mac, bit<32> src, bit<32> dst, bit<16> src_port, bit<16> dst_port) {
        m.rewritten = true;
        standard.mcast_grp = group;
        h.ethernet.src = src_mac;
        h.ethernet.dst = dst_mac;
        h.ipv4.src = src;
        h.ipv4.dst = dst;
        h.udp.src = src_port;
        h.udp.dst = dst_port;
        h.spillway.type = TYPE_RESULT;
        hash(h.udp.checksum, HashAlgorithm.csum16, 16w0,
            { h.ipv4.src, h.ipv4.dst, 8w0, h.ipv4.protocol, h.udp.length, h.udp.src, h.udp.dst, h.udp.length,
              h.spillway.version, h.spillway.type, h.spillway.flags, h.spillway.op, h.spillway.job, h.spillway.generation,
              h.spillway.priority, h.spillway.cookie, h.spillway.seq, h.spillway.bitmap_high, h.spillway.bitmap_low, h.spillway.elems, h.spillway.slot,
              h.elements },
            32w0x10000);
    }
    @name(".to_parent")
    action to_parent(bit<9> port, bit<48> mac, bit<32> src, bit<32> dst, bit<16> first_port, bit<16> port_mask, bit<64> bits) {
        m.rewritten = true;
        standard.egress_spec = port;
        h.ethernet.dst = mac;
        h.ipv4.src = src;
        h.ipv4.dst = dst;
        h.spillway.priority = 0;
        h.spillway.bitmap_high = bits[63:32];
        h.spillway.bitmap_low = bits[31:0];
        h.udp.dst = first_port + (h.spillway.seq[21:6] & port_mask);
        h.udp.checksum = 0;
    }
    @id(ID_PUBLISH)
    @name(".publish")
    table publish {
        key = { h.spillway.job: exact @name("job"); }
        actions = { to_workers; to_parent; drop; }
        const default_action = drop;
        size = JOBS;
    }

    apply {
        if (m.way == Way.ONWARD) {
            if (!h.ipv4.isValid()) {
                if (h.ethernet.type != ETHERTYPE_IPV4) {
                    bridge.apply();
                }
            } else if (h.ipv4.dst[31:28] == 0xE) {
                multicast.apply();
            } else {
                forward.apply();
            }
        } else if (m.way == Way.UP) {
            uplink.apply();
            if (m.preempting) {
                preempted.count((bit<32>)m.content_index);
            }
        } else if (m.way == Way.PUBLISH) {
            m.content_index = m.index;
            publish.apply();
            if (h.udp.checksum == 0 && h.spillway.type == TYPE_RESULT) {
                h.udp.checksum = 0xFFFF; // RFC 768: 0 would say that there is none
            }
        }
        if (m.saturated) {
            saturated.count((bit<32>)m.content_index);
        }
    }
}
