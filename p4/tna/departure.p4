// Where a packet leaves, and what it is when it does.

// What comes of the slot's answers: the event, the way, and the bitmap that travels.
control Outcome(inout headers_t h, inout metadata_t m) {
    @hidden action claim() {
        m.deed = WORK_CLAIM;
        m.event = EVENT_CLAIMED;
        m.way = WAY_ENDS;
    }
    @hidden action merge() {
        m.deed = m.work;
        m.event = EVENT_MERGED;
        m.way = WAY_ENDS;
    }
    @hidden action duplicate() {
        m.event = EVENT_DUPLICATE;
        m.way = WAY_ENDS;
    }
    @hidden action complete() {
        m.deed = m.work;
        m.event = EVENT_COMPLETED;
        m.way = WAY_PUBLISH;
        h.spillway.bitmap_high = h.spillway.bitmap_high | m.old_high;
        h.spillway.bitmap_low = h.spillway.bitmap_low | m.old_low;
    }
    @hidden action preempt() {
        m.deed = WORK_CLAIM;
        m.event = EVENT_PREEMPTS;
        m.way = WAY_UP;
        m.preempting = 1;
        m.id = m.old_id;
        h.spillway.flags = 0;
        h.spillway.job = m.old_tag[31:16];
        h.spillway.generation = m.old_tag[15:8];
        h.spillway.bitmap_high = m.old_high;
        h.spillway.bitmap_low = m.old_low;
    }
    @hidden action unite() {
        m.deed = m.work;
        m.event = EVENT_RESEND_EVICTED;
        m.way = WAY_UP;
        h.spillway.bitmap_high = h.spillway.bitmap_high | m.old_high;
        h.spillway.bitmap_low = h.spillway.bitmap_low | m.old_low;
    }
    @hidden action take_along(bit<8> event) {
        m.deed = WORK_CLAIM;
        m.event = event;
        m.way = WAY_UP;
        h.spillway.bitmap_high = m.old_high;
        h.spillway.bitmap_low = m.old_low;
    }
    @hidden action spill() {
        m.event = EVENT_SPILLED;
    }
    @hidden action free() {
        m.event = EVENT_FREED;
    }
    @hidden table outcome {
        key = {
            m.work: ternary;
            m.over_high: ternary;
            m.over_low: ternary;
            m.rest_high: ternary;
            m.rest_low: ternary;
            m.differs_high: ternary;
            m.differs_low: ternary;
        }
        actions = { claim; merge; duplicate; complete; preempt; unite; take_along; spill; free; NoAction; }
        const default_action = NoAction;
        const entries = {
            (WORK_CLAIM, _, _, _, _, _, _): claim();
            (WORK_PREEMPT, _, _, _, _, _, _): preempt();
            (WORK_SPILL, _, _, _, _, _, _): spill();
            (WORK_FREE, _, _, _, _, _, _): free();
            (WORK_MERGE &&& WORK_MASK, 0, 0, 0, 0, _, _): complete();
            (WORK_MERGE &&& WORK_MASK, 0, 0, _, _, _, _): merge();
            (WORK_MERGE &&& WORK_MASK, _, _, _, _, _, _): duplicate();
            (WORK_TAKE &&& WORK_MASK, 0, 0, _, _, _, _): unite();
            (WORK_TAKE &&& WORK_MASK, _, _, _, _, 0, 0): take_along(EVENT_RESEND_EVICTED);
            (WORK_TAKE &&& WORK_MASK, _, _, _, _, _, _): take_along(EVENT_OVERLAP);
        }
    }

    // Packets of other lengths than 32 elements: the difference of the lengths takes two stages, and nothing waits for it.
    @hidden action refuse() {
        m.index = 0;
        m.event = EVENT_BAD_HEADER;
        m.way = WAY_ENDS;
    }
    @hidden table lengths {
        key = {
            m.shape: ternary;
            m.ip_rest: ternary;
            m.udp_rest: ternary;
        }
        actions = { refuse; NoAction; }
        const default_action = NoAction;
        const entries = {
            (SHAPE_LARGE, 20, 36): NoAction();
            (SHAPE_LARGE_RESULT, 20, 36): NoAction();
            (SHAPE_LARGE, _, _): refuse();
            (SHAPE_LARGE_RESULT, _, _): refuse();
        }
    }

    @hidden action keep_ecn() {
        m.old_marks = m.old_marks & FLAG_ECN;
    }
    @hidden action keep_op() {
        h.spillway.op = m.old_marks >> 4;
    }

    apply {
        m.udp_rest = h.udp.length - m.payload;
        outcome.apply();
        lengths.apply();
        if (m.preempting == 1) {
            keep_op();
        }
        keep_ecn();
    }
}

control Departure(inout headers_t h, inout metadata_t m, in ingress_intrinsic_metadata_t intrinsic,
                  inout ingress_intrinsic_metadata_for_deparser_t deparser, inout ingress_intrinsic_metadata_for_tm_t manager) {
    @name(".forward_packets")
    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) forward_packets;
    @id(ID_PREEMPTED)
    @name(".preempted")
    Counter<bit<64>, bit<8>>(JOBS, CounterType_t.PACKETS) preempted;
    @id(ID_EVENTS)
    @name(".events")
    Counter<bit<64>, bit<13>>(EVENT_COUNTERS, CounterType_t.PACKETS) events; // job index * 32 + event
    Hash<bit<16>>(HashAlgorithm_t.IDENTITY) sixty_fourths;

    @name(".drop")
    action drop() {
        m.dropped = 1;
    }
    @hidden action discard() {
        deparser.drop_ctl = 1;
    }
    @name(".to_port")
    action to_port(bit<9> port, bit<48> mac) {
        manager.ucast_egress_port = port;
        h.ethernet.dst = mac;
        forward_packets.count();
    }
    @id(ID_FORWARD)
    @name(".forward")
    table forward {
        key = { h.ipv4.dst: lpm @name("dst"); }
        actions = { to_port; @defaultonly drop; } // what a direct counter belongs to counts in all actions that an entry may have
        const default_action = drop;
        size = ROUTES;
        counters = forward_packets;
    }

    @name(".to_group")
    action to_group(bit<16> group) {
        manager.mcast_grp_a = group;
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
        manager.ucast_egress_port = port;
    }
    @name(".flood")
    action flood(bit<16> group) {
        manager.mcast_grp_a = group;
        h.passage.flooded = 1;
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
        h.passage.index = index;
        m.rewritten = 1;
        manager.ucast_egress_port = port;
        h.ethernet.dst = mac;
        h.ipv4.src = src;
        h.ipv4.dst = dst;
        h.spillway.priority = 0;
        h.spillway.cookie = cookie;
        h.spillway.seq = (bit<32>)m.id ^ key;
        h.udp.checksum = 0;
        m.first_port = first_port;
        m.port_mask = port_mask;
    }
    @id(ID_UPLINK)
    @name(".uplink")
    table uplink {
        key = { h.spillway.job: exact @name("job"); }
        actions = { send_up; drop; }
        const default_action = drop;
        size = JOBS;
    }

    @name(".to_workers")
    action to_workers(bit<16> group, bit<48> src_mac, bit<48> dst_mac, bit<32> src, bit<32> dst, bit<16> src_port, bit<16> dst_port) {
        h.passage.index = m.index;
        m.rewritten = 1;
        h.passage.published = 1;
        m.published = 1;
        manager.mcast_grp_a = group;
        h.ethernet.src = src_mac;
        h.ethernet.dst = dst_mac;
        h.ipv4.src = src;
        h.ipv4.dst = dst;
        h.udp.src = src_port;
        h.udp.dst = dst_port;
        h.spillway.type = TYPE_RESULT;
    }
    @name(".to_parent")
    action to_parent(bit<9> port, bit<48> mac, bit<32> src, bit<32> dst, bit<16> first_port, bit<16> port_mask, bit<64> bits) {
        h.passage.index = m.index;
        m.rewritten = 1;
        manager.ucast_egress_port = port;
        h.ethernet.dst = mac;
        h.ipv4.src = src;
        h.ipv4.dst = dst;
        h.spillway.priority = 0;
        h.spillway.bitmap_high = bits[63:32];
        h.spillway.bitmap_low = bits[31:0];
        h.udp.checksum = 0;
        m.first_port = first_port;
        m.port_mask = port_mask;
    }
    @id(ID_PUBLISH)
    @name(".publish")
    table publish {
        key = { h.spillway.job: exact @name("job"); }
        actions = { to_workers; to_parent; drop; }
        const default_action = drop;
        size = JOBS;
    }

    @hidden action home_port_offset() {
        m.port_offset = sixty_fourths.get({ h.spillway.seq[21:6] });
    }
    @hidden action home_port_mask() {
        m.port_offset = m.port_offset & m.port_mask;
    }
    @hidden action home_port() {
        h.udp.dst = m.first_port + m.port_offset;
    }

    @hidden action count_event() {
        events.count(m.counter);
    }
    @hidden action count_victim() {
        preempted.count(h.passage.index);
    }
    @hidden action add_flags() {
        h.spillway.flags = h.spillway.flags | m.old_marks;
    }
    @hidden action set_flags() {
        h.spillway.flags = m.old_marks;
    }
    @hidden action is_summed() {
        h.passage.summed = 1;
    }

    // What rewrites comes first: it has the longest way to go.
    apply {
        m.counter = m.index ++ m.event[4:0];
        if (h.spillway.isValid()) {
            count_event();
        }
        if (m.way == WAY_UP) {
            add_flags();
        }
        if (m.way == WAY_UP) {
            uplink.apply();
        }
        if (m.preempting == 1) {
            count_victim();
        }
        if (m.way == WAY_PUBLISH) {
            set_flags();
        }
        if (m.way == WAY_PUBLISH) {
            publish.apply();
        }
        home_port_offset();
        home_port_mask();
        if (m.first_port != 0) {
            home_port();
        }
        if (m.way[1:1] == 1 && h.spillway.op == OP_SUM) {
            is_summed();
        }
        if (m.way == WAY_ONWARD && m.cast == CAST_LINK) {
            bridge.apply();
        }
        if (m.way == WAY_ONWARD && m.cast == CAST_MULTICAST) {
            multicast.apply();
        }
        if (m.way == WAY_ONWARD && m.cast == CAST_UNICAST) {
            forward.apply();
        }
        if (m.way == WAY_ENDS || m.dropped == 1) {
            discard();
        }
    }
}
