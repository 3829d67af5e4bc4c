// Who may send what. The lookups need nothing but the packet and so share the first stage; what they mean is decided in the second,
// while the slot is already being asked.

control Lookups(inout headers_t h, inout metadata_t m, in ingress_intrinsic_metadata_t intrinsic) {
    @name(".member_packets")
    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) member_packets;

    @name(".set_job")
    action set_job(bit<8> index, bit<8> generation, bit<32> cookie, bit<32> key) {
        m.known = 1;
        m.index = index;
        m.generation_difference = h.spillway.generation ^ generation;
        m.cookie_difference = h.spillway.cookie ^ cookie;
        m.id = (int<32>)(h.spillway.seq ^ key);
    }
    @name(".no_job")
    action no_job() {
        m.generation_difference = 0xFF; // so that no slot is touched
    }
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
        m.over_high = h.spillway.bitmap_high & ~bits[63:32];
        m.over_low = h.spillway.bitmap_low & ~bits[31:0];
        m.differs_high = h.spillway.bitmap_high ^ bits[63:32];
        m.differs_low = h.spillway.bitmap_low ^ bits[31:0];
        m.rest_high = rest[63:32];
        m.rest_low = rest[31:0];
        member_packets.count();
    }
    @name(".home")
    action home() {
        m.role = ROLE_HOME;
        member_packets.count();
    }
    @name(".echo")
    action echo() {
        m.role = ROLE_ECHO;
        member_packets.count();
    }
    @name(".stranger")
    action stranger() {
        m.role = ROLE_STRANGER;
        member_packets.count();
    }
    @id(ID_MEMBER)
    @name(".member")
    table member {
        key = {
            intrinsic.ingress_port: exact @name("port");
            h.ipv4.src: exact @name("src");
            h.spillway.job: exact @name("job");
        }
        actions = { worker; home; echo; @defaultonly stranger; }
        const default_action = stranger;
        size = MEMBERS;
        counters = member_packets;
    }

    @name(".private_slots")
    action private_slots() {
        m.region = CONTESTED;
    }
    @name(".shared_slots")
    action shared_slots() {
        m.region = CONTESTED;
    }
    @name(".first_come_slots")
    action first_come_slots() {
        m.region = FIRST_COME;
    }
    @name(".no_slots")
    action no_slots() { }
    @id(ID_REGION)
    @name(".region")
    table region {
        key = {
            h.spillway.job: exact @name("job");
            h.spillway.slot: ternary @name("slot");
        }
        actions = { private_slots; shared_slots; first_come_slots; @defaultonly no_slots; }
        const default_action = no_slots;
        size = REGIONS;
    }

    // The header by itself. 56 and 36 are the lengths without elements, 184 and 164 those with 32.
    @hidden action shaped(bit<8> shape) {
        m.shape = shape;
    }
#define KNOWN 0x00 &&& 0xF0
#define SUM_MAX 0x00 &&& 0xFE
#define BARE(type, op, shape) (true, VERSION, type, KNOWN, op, _, 0, 36, 56): shaped(shape);
#define WHOLE(type, flags, op, priority, shape) (true, VERSION, type, flags, op, priority, SUMMED_ELEMENTS, 164, 184): shaped(shape);
#define LARGE(type, op, elems, shape) (true, VERSION, type, KNOWN, op, _, elems, _, _): shaped(shape);
#define DATA_OF(op) \
        WHOLE(TYPE_DATA, 0x01 &&& 0xF1, op, _, SHAPE_TAKE) \
        WHOLE(TYPE_DATA, 0x02 &&& 0xF2, op, _, SHAPE_TAKE) \
        WHOLE(TYPE_DATA, 0x04 &&& 0xF4, op, _, SHAPE_TAKE) \
        WHOLE(TYPE_DATA, KNOWN, op, 0, SHAPE_TAKE) \
        WHOLE(TYPE_DATA, KNOWN, op, 0x80 &&& 0x80, SHAPE_TAKE) \
        WHOLE(TYPE_DATA, KNOWN, op, _, SHAPE_REST) \
        WHOLE(TYPE_RESULT, KNOWN, op, _, SHAPE_RESULT)
#define LARGE_OF(type, op, shape) \
        LARGE(type, op, 0, SHAPE_BAD) \
        LARGE(type, op, SUMMED_ELEMENTS, SHAPE_BAD) \
        LARGE(type, op, 0x0000 &&& 0xFE00, shape) \
        LARGE(type, op, 0x0200 &&& 0xFF00, shape) \
        LARGE(type, op, 0x0300 &&& 0xFFC0, shape) \
        LARGE(type, op, MAX_ELEMENTS, shape)
#define BARE_OF(op) \
        BARE(TYPE_PROBE, op, SHAPE_PROBE) \
        BARE(TYPE_SOLICIT, op, SHAPE_HOME) \
        BARE(TYPE_PENDING, op, SHAPE_HOME)
    @hidden table shape {
        key = {
            h.spillway.isValid(): ternary @name("spillway");
            h.spillway.version: ternary;
            h.spillway.type: ternary;
            h.spillway.flags: ternary;
            h.spillway.op: ternary;
            h.spillway.priority: ternary;
            h.spillway.elems: ternary;
            h.udp.length: ternary;
            h.ipv4.length: ternary;
        }
        actions = { shaped; }
        const default_action = shaped(SHAPE_BAD);
        const entries = {
            DATA_OF(SUM_MAX)
            DATA_OF(OP_MIN)
            LARGE_OF(TYPE_DATA, SUM_MAX, SHAPE_LARGE)
            LARGE_OF(TYPE_DATA, OP_MIN, SHAPE_LARGE)
            LARGE_OF(TYPE_RESULT, SUM_MAX, SHAPE_LARGE_RESULT)
            LARGE_OF(TYPE_RESULT, OP_MIN, SHAPE_LARGE_RESULT)
            BARE_OF(SUM_MAX)
            BARE_OF(OP_MIN)
        }
    }

    @hidden action is_empty() {
        m.empty = 1;
    }
    @hidden table emptiness {
        key = {
            h.spillway.bitmap_high: ternary;
            h.spillway.bitmap_low: ternary;
        }
        actions = { is_empty; NoAction; }
        const default_action = NoAction;
        const entries = { (0, 0): is_empty(); }
    }

    @hidden action marked(bit<8> marks) {
        m.marks = marks;
    }
    @hidden table marking {
        key = {
            h.ipv4.ecn: ternary;
            h.spillway.flags: ternary;
            h.spillway.op: ternary;
        }
        actions = { marked; }
        const default_action = marked(0);
        const entries = {
            (CONGESTION_EXPERIENCED, _, OP_SUM): marked(0x08);
            (CONGESTION_EXPERIENCED, _, OP_MAX): marked(0x18);
            (CONGESTION_EXPERIENCED, _, OP_MIN): marked(0x28);
            (_, FLAG_ECN &&& FLAG_ECN, OP_SUM): marked(0x08);
            (_, FLAG_ECN &&& FLAG_ECN, OP_MAX): marked(0x18);
            (_, FLAG_ECN &&& FLAG_ECN, OP_MIN): marked(0x28);
            (_, _, OP_MAX): marked(0x10);
            (_, _, OP_MIN): marked(0x20);
        }
    }

    @hidden action aimed(bit<8> cast) {
        m.cast = cast;
    }
    @hidden table aim {
        key = {
            h.ethernet.type: ternary;
            h.ipv4.dst: ternary;
        }
        actions = { aimed; }
        const default_action = aimed(CAST_LINK);
        const entries = {
            (ETHERTYPE_IPV4, 0xE0000000 &&& 0xF0000000): aimed(CAST_MULTICAST);
            (ETHERTYPE_IPV4, _): aimed(CAST_UNICAST);
        }
    }

    @hidden action measure() {
        m.payload = h.spillway.elems << 2;
        m.ip_rest = h.ipv4.length - h.udp.length;
        m.tag = h.spillway.job ++ h.spillway.generation ++ 8w0;
        m.urgency = (int<32>)(h.spillway.priority ++ 24w0);
    }

    apply {
        if (h.spillway.isValid()) {
            job.apply();
        }
        if (h.spillway.isValid()) {
            member.apply();
        }
        region.apply();
        shape.apply();
        aim.apply();
        emptiness.apply();
        marking.apply();
        measure();
    }
}

// What an admitted packet is when no slot has a say, and the reason why another is refused.
control Verdict(inout headers_t h, inout metadata_t m) {
    @hidden action refuse(bit<8> event) {
        m.event = event;
        m.way = WAY_ENDS;
    }
    @hidden action malformed() {
        m.index = 0; // nobody's
        m.event = EVENT_BAD_HEADER;
        m.way = WAY_ENDS;
    }
    @hidden action let_go(bit<8> event) {
        m.event = event;
        m.way = WAY_ONWARD;
    }
    @hidden action end(bit<8> event) {
        m.event = event;
        m.way = WAY_ENDS;
    }
#define OK 1, 0, 0
    @stage(3)
    @hidden table verdict {
        key = {
            m.shape: ternary;
            m.known: ternary;
            m.generation_difference: ternary;
            m.cookie_difference: ternary;
            m.role: ternary;
            m.empty: ternary;
            m.over_high: ternary;
            m.over_low: ternary;
            m.region: ternary;
            h.spillway.slot: ternary;
        }
        actions = { refuse; malformed; let_go; end; }
        const default_action = refuse(EVENT_STALE);
        const entries = {
            (SHAPE_BAD, _, _, _, _, _, _, _, _, _): malformed();
            (_, 0, _, _, _, _, _, _, _, _): refuse(EVENT_UNKNOWN_JOB);
            (_, OK, ROLE_STRANGER, _, _, _, _, _): refuse(EVENT_NOT_MEMBER);
            (SHAPE_HOME, OK, ROLE_HOME, _, _, _, _, _): let_go(EVENT_FORWARDED);
            (SHAPE_HOME, OK, _, _, _, _, _, _): refuse(EVENT_BAD_DIRECTION);
            (SHAPE_RESULT, OK, _, 1, _, _, _, _): refuse(EVENT_BAD_BITMAP);
            (SHAPE_LARGE_RESULT, OK, _, 1, _, _, _, _): refuse(EVENT_BAD_BITMAP);
            (SHAPE_RESULT, OK, ROLE_ECHO, _, _, _, _, _): end(EVENT_FORWARDED);
            (SHAPE_LARGE_RESULT, OK, ROLE_ECHO, _, _, _, _, _): end(EVENT_FORWARDED);
            (SHAPE_RESULT, OK, _, _, _, _, _, _): let_go(EVENT_FORWARDED);
            (SHAPE_LARGE_RESULT, OK, _, _, _, _, _, _): let_go(EVENT_FORWARDED);
            (_, OK, ROLE_HOME, _, _, _, _, _): refuse(EVENT_BAD_DIRECTION);
            (_, OK, ROLE_ECHO, _, _, _, _, _): refuse(EVENT_BAD_DIRECTION);
            (_, OK, _, 1, _, _, _, _): refuse(EVENT_BAD_BITMAP);
            (SHAPE_PROBE, OK, _, _, 0, 0, _, _): let_go(EVENT_FORWARDED);
            (_, OK, _, _, 0, 0, CONTESTED, _): let_go(EVENT_PASSED);
            (_, OK, _, _, 0, 0, FIRST_COME, _): let_go(EVENT_PASSED);
            (_, OK, _, _, 0, 0, _, NO_SLOT): let_go(EVENT_PASSED);
            (_, OK, _, _, 0, 0, _, _): let_go(EVENT_BAD_SLOT);
            (_, OK, _, _, _, _, _, _): refuse(EVENT_BAD_BITMAP);
            (_, 1, 0, _, _, _, _, _, _, _): refuse(EVENT_BAD_COOKIE);
        }
    }

    apply {
        if (h.spillway.isValid()) {
            verdict.apply();
        }
    }
}
