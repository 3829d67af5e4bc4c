// The slots: who owns one, what it has, and what becomes of it and of the packet (docs/protocol.md, section 6).
//
// A register answers one word, and is asked once. So the owner of a slot, its id and urgency, is kept three times: one copy says how the
// contest went, the others what was there before. They get the same operands and take the same decisions, so they never differ. The
// tag is kept three times too: it decides whether a bitmap is added to, in the pass that reads it.

struct owner_t {
    int<32> id;
    int<32> urgency; // 0: free
}

struct part_t {
    bit<32> bitmap;
    bit<32> tag;
}

// What the owner is asked. CONTEST: by DATA that may rest. SETTLE: the same where slots are first come, first served. EVICT: by DATA
// that takes along, and by RESULT.
#define OWNER_TABLE(copy) \
    @hidden table owner_##copy { \
        key = { \
            m.shape: ternary; \
            m.generation_difference: ternary; \
            m.cookie_difference: ternary; \
            m.role: ternary; \
            m.empty: ternary; \
            m.region: ternary; \
            m.differs_high: ternary; \
            m.differs_low: ternary; \
            m.over_high: ternary; \
            m.over_low: ternary; \
        } \
        actions = { contest_##copy; settle_##copy; evict_##copy; free_##copy; NoAction; } \
        const default_action = NoAction; \
        const entries = { \
            (SHAPE_REST, 0, 0, ROLE_WORKER, 0, CONTESTED, 0, 0, _, _): contest_##copy(); \
            (SHAPE_REST, 0, 0, ROLE_WORKER, 0, FIRST_COME, 0, 0, _, _): settle_##copy(); \
            (SHAPE_REST, 0, 0, ROLE_WORKER, 0, CONTESTED, _, _, 0, 0): evict_##copy(); \
            (SHAPE_REST, 0, 0, ROLE_WORKER, 0, FIRST_COME, _, _, 0, 0): evict_##copy(); \
            (SHAPE_TAKE, 0, 0, ROLE_WORKER, 0, CONTESTED, _, _, 0, 0): evict_##copy(); \
            (SHAPE_TAKE, 0, 0, ROLE_WORKER, 0, FIRST_COME, _, _, 0, 0): evict_##copy(); \
            (SHAPE_RESULT, 0, 0, ROLE_WORKER, 0, CONTESTED, _, _, _, _): free_##copy(); \
            (SHAPE_RESULT, 0, 0, ROLE_WORKER, 0, FIRST_COME, _, _, _, _): free_##copy(); \
            (SHAPE_RESULT, 0, 0, ROLE_HOME, 0, CONTESTED, _, _, _, _): free_##copy(); \
            (SHAPE_RESULT, 0, 0, ROLE_HOME, 0, FIRST_COME, _, _, _, _): free_##copy(); \
            (SHAPE_RESULT, 0, 0, ROLE_ECHO, 0, CONTESTED, _, _, _, _): free_##copy(); \
            (SHAPE_RESULT, 0, 0, ROLE_ECHO, 0, FIRST_COME, _, _, _, _): free_##copy(); \
        } \
    }

#define CONTEST \
    if (m.urgency - x.urgency > MARGIN) { \
        x.id = m.id; \
        x.urgency = m.urgency; \
    } else if (x.id != m.id) { \
        x.urgency = x.urgency - AGE; \
    }
#define SETTLE \
    if (x.urgency == 0) { \
        x.id = m.id; \
        x.urgency = m.urgency; \
    }
#define EVICT \
    if (x.id == m.id) { \
        x.urgency = 0; \
    }

control Owner(inout headers_t h, inout metadata_t m) {
    // How the contest went.
    Register<owner_t, bit<15>>(SLOTS) slot_contest;
    RegisterAction<owner_t, bit<15>, bit<8>>(slot_contest) contest_ask = {
        void apply(inout owner_t x, out bit<8> answer) {
            answer = this.predicate(x.id == m.id, m.urgency - x.urgency > MARGIN);
            CONTEST
        }
    };
    RegisterAction<owner_t, bit<15>, bit<8>>(slot_contest) settle_ask = {
        void apply(inout owner_t x, out bit<8> answer) {
            answer = this.predicate(x.id == m.id, x.urgency == 0);
            SETTLE
        }
    };
    RegisterAction<owner_t, bit<15>, bit<8>>(slot_contest) evict_ask = {
        void apply(inout owner_t x, out bit<8> answer) {
            answer = this.predicate(x.id == m.id, x.urgency == 0);
            EVICT
        }
    };
    @hidden action contest_a() { m.answer = contest_ask.execute(h.spillway.slot[14:0]); m.ask = ASK_CONTEST; }
    @hidden action settle_a() { m.answer = settle_ask.execute(h.spillway.slot[14:0]); m.ask = ASK_CONTEST; }
    @hidden action evict_a() { m.answer = evict_ask.execute(h.spillway.slot[14:0]); m.ask = ASK_EVICT; }
    @hidden action free_a() { m.answer = evict_ask.execute(h.spillway.slot[14:0]); m.ask = ASK_FREE; }
    OWNER_TABLE(a)

    // Whose it was.
    Register<owner_t, bit<15>>(SLOTS) slot_id;
    RegisterAction<owner_t, bit<15>, int<32>>(slot_id) contest_id = {
        void apply(inout owner_t x, out int<32> answer) { answer = x.id; CONTEST }
    };
    RegisterAction<owner_t, bit<15>, int<32>>(slot_id) settle_id = {
        void apply(inout owner_t x, out int<32> answer) { answer = x.id; SETTLE }
    };
    RegisterAction<owner_t, bit<15>, int<32>>(slot_id) evict_id = {
        void apply(inout owner_t x, out int<32> answer) { answer = x.id; EVICT }
    };
    @hidden action contest_b() { m.old_id = contest_id.execute(h.spillway.slot[14:0]); }
    @hidden action settle_b() { m.old_id = settle_id.execute(h.spillway.slot[14:0]); }
    @hidden action evict_b() { m.old_id = evict_id.execute(h.spillway.slot[14:0]); }
    @hidden action free_b() { m.old_id = evict_id.execute(h.spillway.slot[14:0]); }
    OWNER_TABLE(b)

    // How urgent that was; 0: the slot was free.
    Register<owner_t, bit<15>>(SLOTS) slot_urgency;
    RegisterAction<owner_t, bit<15>, int<32>>(slot_urgency) contest_urgency = {
        void apply(inout owner_t x, out int<32> answer) { answer = x.urgency; CONTEST }
    };
    RegisterAction<owner_t, bit<15>, int<32>>(slot_urgency) settle_urgency = {
        void apply(inout owner_t x, out int<32> answer) { answer = x.urgency; SETTLE }
    };
    RegisterAction<owner_t, bit<15>, int<32>>(slot_urgency) evict_urgency = {
        void apply(inout owner_t x, out int<32> answer) { answer = x.urgency; EVICT }
    };
    @hidden action contest_c() { m.old_urgency = contest_urgency.execute(h.spillway.slot[14:0]); }
    @hidden action settle_c() { m.old_urgency = settle_urgency.execute(h.spillway.slot[14:0]); }
    @hidden action evict_c() { m.old_urgency = evict_urgency.execute(h.spillway.slot[14:0]); }
    @hidden action free_c() { m.old_urgency = evict_urgency.execute(h.spillway.slot[14:0]); }
    OWNER_TABLE(c)

    apply {
        owner_a.apply();
        owner_b.apply();
        owner_c.apply();
    }
}

// Keys of the tables of the second step, in this order: what was asked, the answer, the urgency before.
//     contest, free before              -> claim
//     contest, same id                  -> meet: the tag decides
//     contest, more urgent than another -> preempt
//     contest, not more urgent          -> spill
//     evict, same id, not free          -> take: the tag decides
//     free, same id, not free           -> freed
// The predicate of one comparison: true sets bit 1 or 3, false bit 0 or 2.
#define SAME 0 &&& 0x05
#define CONTENT_KEY { m.ask: ternary; m.answer: ternary; m.old_urgency: ternary; }

control Content(inout headers_t h, inout metadata_t m) {
    Register<part_t, bit<15>>(SLOTS) slot_bitmap_low;
    RegisterAction<part_t, bit<15>, bit<32>>(slot_bitmap_low) swap_low = {
        void apply(inout part_t x, out bit<32> answer) { answer = x.bitmap; x.bitmap = h.spillway.bitmap_low; x.tag = m.tag; }
    };
    RegisterAction<part_t, bit<15>, bit<32>>(slot_bitmap_low) add_low = {
        void apply(inout part_t x, out bit<32> answer) {
            answer = x.bitmap;
            if (x.tag == m.tag) { x.bitmap = x.bitmap | h.spillway.bitmap_low; }
        }
    };
    RegisterAction<part_t, bit<15>, bit<32>>(slot_bitmap_low) read_low = {
        void apply(inout part_t x, out bit<32> answer) { answer = x.bitmap; }
    };
    @hidden action low_swap() { m.old_low = swap_low.execute(h.spillway.slot[14:0]); }
    @hidden action low_add() { m.old_low = add_low.execute(h.spillway.slot[14:0]); }
    @hidden action low_read() { m.old_low = read_low.execute(h.spillway.slot[14:0]); }
    @hidden table bitmap_low {
        key = CONTENT_KEY
        actions = { low_swap; low_add; low_read; NoAction; }
        const default_action = NoAction;
        const entries = {
            (ASK_CONTEST, _, 0): low_swap();
            (ASK_CONTEST, FIRST, _): low_add();
            (ASK_CONTEST, BOTH, _): low_add();
            (ASK_CONTEST, SECOND, _): low_swap();
            (ASK_EVICT, _, _): low_read();
        }
    }

    Register<part_t, bit<15>>(SLOTS) slot_bitmap_high;
    RegisterAction<part_t, bit<15>, bit<32>>(slot_bitmap_high) swap_high = {
        void apply(inout part_t x, out bit<32> answer) { answer = x.bitmap; x.bitmap = h.spillway.bitmap_high; x.tag = m.tag; }
    };
    RegisterAction<part_t, bit<15>, bit<32>>(slot_bitmap_high) add_high = {
        void apply(inout part_t x, out bit<32> answer) {
            answer = x.bitmap;
            if (x.tag == m.tag) { x.bitmap = x.bitmap | h.spillway.bitmap_high; }
        }
    };
    RegisterAction<part_t, bit<15>, bit<32>>(slot_bitmap_high) read_high = {
        void apply(inout part_t x, out bit<32> answer) { answer = x.bitmap; }
    };
    @hidden action high_swap() { m.old_high = swap_high.execute(h.spillway.slot[14:0]); }
    @hidden action high_add() { m.old_high = add_high.execute(h.spillway.slot[14:0]); }
    @hidden action high_read() { m.old_high = read_high.execute(h.spillway.slot[14:0]); }
    @hidden table bitmap_high {
        key = CONTENT_KEY
        actions = { high_swap; high_add; high_read; NoAction; }
        const default_action = NoAction;
        const entries = {
            (ASK_CONTEST, _, 0): high_swap();
            (ASK_CONTEST, FIRST, _): high_add();
            (ASK_CONTEST, BOTH, _): high_add();
            (ASK_CONTEST, SECOND, _): high_swap();
            (ASK_EVICT, _, _): high_read();
        }
    }

    // Whether the tag is the packet's.
    Register<bit<32>, bit<15>>(SLOTS) slot_same_tag;
    RegisterAction<bit<32>, bit<15>, bit<8>>(slot_same_tag) set_tag = {
        void apply(inout bit<32> x, out bit<8> answer) { answer = this.predicate(x == m.tag); x = m.tag; }
    };
    RegisterAction<bit<32>, bit<15>, bit<8>>(slot_same_tag) compare_tag = {
        void apply(inout bit<32> x, out bit<8> answer) { answer = this.predicate(x == m.tag); }
    };
    @hidden action claimed() { m.same_tag = set_tag.execute(h.spillway.slot[14:0]); m.contest = WORK_CLAIM; }
    @hidden action preempted() { m.same_tag = set_tag.execute(h.spillway.slot[14:0]); m.contest = WORK_PREEMPT; }
    @hidden action met() { m.same_tag = compare_tag.execute(h.spillway.slot[14:0]); m.contest = WORK_MERGE; }
    @hidden action taken() { m.same_tag = compare_tag.execute(h.spillway.slot[14:0]); m.contest = WORK_TAKE; }
    @hidden action freed() { m.contest = WORK_FREE; }
    @hidden action spilled() { m.contest = WORK_SPILL; }
    @hidden table contest {
        key = CONTENT_KEY
        actions = { claimed; preempted; met; taken; freed; spilled; NoAction; }
        const default_action = NoAction;
        const entries = {
            (ASK_CONTEST, _, 0): claimed();
            (ASK_CONTEST, FIRST, _): met();
            (ASK_CONTEST, BOTH, _): met();
            (ASK_CONTEST, SECOND, _): preempted();
            (ASK_CONTEST, _, _): spilled();
            (ASK_EVICT, _, 0): NoAction();
            (ASK_EVICT, FIRST, _): taken();
            (ASK_FREE, _, 0): NoAction();
            (ASK_FREE, FIRST, _): freed();
        }
    }

    // The tag that was there.
    Register<bit<32>, bit<15>>(SLOTS) slot_tag;
    RegisterAction<bit<32>, bit<15>, bit<32>>(slot_tag) swap_tag = {
        void apply(inout bit<32> x, out bit<32> answer) { answer = x; x = m.tag; }
    };
    @hidden action tag_swap() { m.old_tag = swap_tag.execute(h.spillway.slot[14:0]); }
    @hidden table tag {
        key = CONTENT_KEY
        actions = { tag_swap; NoAction; }
        const default_action = NoAction;
        const entries = {
            (ASK_CONTEST, _, 0): tag_swap();
            (ASK_CONTEST, SECOND, _): tag_swap();
        }
    }

    apply {
        bitmap_low.apply();
        bitmap_high.apply();
        contest.apply();
        tag.apply();
    }
}

// The third step: how the bitmaps compare, what the marks become, and what the lanes have to do.
control Comparison(inout headers_t h, inout metadata_t m) {
    Register<bit<8>, bit<15>>(SLOTS) slot_marks;
    RegisterAction<bit<8>, bit<15>, bit<8>>(slot_marks) swap_marks = {
        void apply(inout bit<8> x, out bit<8> answer) { answer = x; x = m.marks; }
    };
    RegisterAction<bit<8>, bit<15>, bit<8>>(slot_marks) add_marks = {
        void apply(inout bit<8> x, out bit<8> answer) { x = x | m.marks; answer = x; }
    };
    @hidden action marks_swap() { m.old_marks = swap_marks.execute(h.spillway.slot[14:0]); }
    @hidden action marks_add() { m.old_marks = add_marks.execute(h.spillway.slot[14:0]); }
    @hidden table marks {
        key = {
            m.contest: ternary;
            m.same_tag: ternary;
        }
        actions = { marks_swap; marks_add; NoAction; }
        const default_action = NoAction;
        const entries = {
            (WORK_CLAIM, _): marks_swap();
            (WORK_PREEMPT, _): marks_swap();
            (WORK_MERGE, SAME): marks_add();
            (WORK_TAKE, SAME): marks_add();
        }
    }

    @hidden action to_do(bit<8> work) {
        m.work = work;
    }
    @hidden table plan {
        key = {
            m.contest: ternary;
            m.same_tag: ternary;
            h.spillway.op: ternary;
        }
        actions = { to_do; }
        const default_action = to_do(WORK_NOTHING);
        const entries = {
            (WORK_CLAIM, _, _): to_do(WORK_CLAIM);
            (WORK_PREEMPT, _, _): to_do(WORK_PREEMPT);
            (WORK_SPILL, _, _): to_do(WORK_SPILL);
            (WORK_FREE, _, _): to_do(WORK_FREE);
            (WORK_MERGE, SAME, OP_SUM): to_do(WORK_MERGE | OP_SUM);
            (WORK_MERGE, SAME, OP_MAX): to_do(WORK_MERGE | OP_MAX);
            (WORK_MERGE, SAME, OP_MIN): to_do(WORK_MERGE | OP_MIN);
            (WORK_MERGE, _, _): to_do(WORK_SPILL);
            (WORK_TAKE, SAME, OP_SUM): to_do(WORK_TAKE | OP_SUM);
            (WORK_TAKE, SAME, OP_MAX): to_do(WORK_TAKE | OP_MAX);
            (WORK_TAKE, SAME, OP_MIN): to_do(WORK_TAKE | OP_MIN);
        }
    }

    @hidden action compare() {
        m.over_high = m.old_high & h.spillway.bitmap_high;
        m.over_low = m.old_low & h.spillway.bitmap_low;
        m.rest_high = m.old_high ^ m.rest_high;
        m.rest_low = m.old_low ^ m.rest_low;
        m.differs_high = h.spillway.bitmap_high & ~m.old_high;
        m.differs_low = h.spillway.bitmap_low & ~m.old_low;
    }

    apply {
        marks.apply();
        plan.apply();
        compare();
    }
}
