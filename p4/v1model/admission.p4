// Who may send what: the first check that a packet fails ends it, and is its event.

control Admission(inout headers_t h, inout metadata_t m, in standard_metadata_t standard, out bool admitted) {
    bool well_formed = false;

    @name(".member_packets")
    direct_counter(CounterType.packets_and_bytes) member_packets;

    @name(".set_job")
    action set_job(bit<8> index, bit<8> generation, bit<32> cookie, bit<32> key) {
        m.index = index;
        m.generation = generation;
        m.cookie = cookie;
        m.key = key;
    }
    @name(".no_job")
    action no_job() { }
    @id(ID_JOB)
    @name(".job")
    table job {
        key = { h.spillway.job: exact @name("job"); }
        actions = { set_job; @defaultonly no_job; }
        const default_action = no_job;
        size = JOBS;
    }

    @name(".worker")
    action worker(bit<64> bits, bit<64> rest) {
        m.role = ROLE_WORKER;
        m.bits = bits;
        m.rest = rest;
    }
    @name(".home")
    action home() {
        m.role = ROLE_HOME;
    }
    @name(".echo")
    action echo() {
        m.role = ROLE_ECHO;
    }
    @name(".stranger")
    action stranger() {
        m.role = ROLE_STRANGER;
    }
    @id(ID_MEMBER)
    @name(".member")
    table member {
        key = {
            standard.ingress_port: exact @name("port");
            h.ipv4.src: exact @name("src");
            h.spillway.job: exact @name("job");
        }
        actions = { worker; home; echo; @defaultonly stranger; }
        const default_action = stranger;
        size = MEMBERS;
        counters = member_packets;
    }

    apply {
        admitted = false;
        if (h.spillway.isValid()) {
            m.bitmap = h.spillway.bitmap_high ++ h.spillway.bitmap_low;
            bit<16> expected = UDP_SIZE + HEADER_SIZE + (h.spillway.elems << 2);
            bool carries = h.spillway.type == TYPE_DATA || h.spillway.type == TYPE_RESULT;
            well_formed = h.spillway.version == VERSION && h.spillway.type >= TYPE_DATA && h.spillway.type <= TYPE_PROBE &&
                (h.spillway.flags & ~(FLAG_RESEND | FLAG_SATURATED | FLAG_PARTIAL | FLAG_ECN)) == 0 && h.spillway.op <= OP_MIN &&
                carries == (h.spillway.elems != 0) && h.spillway.elems <= MAX_ELEMENTS &&
                h.udp.length == expected && h.ipv4.length == IPV4_SIZE + expected &&
                standard.packet_length == 14 + (bit<32>)(IPV4_SIZE + expected);
        }
        if (!well_formed) {
            m.event = EVENT_BAD_HEADER;
        } else if (!job.apply().hit) {
            m.event = EVENT_UNKNOWN_JOB;
        } else if (h.spillway.generation != m.generation) {
            m.event = EVENT_STALE;
        } else if (h.spillway.cookie != m.cookie) {
            m.event = EVENT_BAD_COOKIE;
        } else if (!member.apply().hit) {
            m.event = EVENT_NOT_MEMBER;
        } else if (h.spillway.type != TYPE_RESULT && (m.role == ROLE_ECHO ||
                (m.role == ROLE_WORKER) != (h.spillway.type == TYPE_DATA || h.spillway.type == TYPE_PROBE))) {
            m.event = EVENT_BAD_DIRECTION;
        } else if ((m.bitmap == 0 && h.spillway.type != TYPE_SOLICIT && h.spillway.type != TYPE_PENDING) ||
                ((m.bitmap & ~m.bits) != 0 && m.role == ROLE_WORKER && h.spillway.type != TYPE_RESULT)) {
            m.event = EVENT_BAD_BITMAP;
        } else {
            admitted = true;
        }
    }
}
