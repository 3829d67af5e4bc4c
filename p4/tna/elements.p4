// One lane: the elements at one place of all slots. A sum that reaches an end of the range stays there, so that egress sees it,
// whatever is added later.

#define LANE_REGISTER \
    Register<int<32>, bit<15>>(SLOTS) slot_element; \
    RegisterAction<int<32>, bit<15>, bit<32>>(slot_element) swap = { \
        void apply(inout int<32> x, out bit<32> answer) { answer = (bit<32>)x; x = (int<32>)element; } \
    }; \
    RegisterAction<int<32>, bit<15>, bit<32>>(slot_element) sum = { \
        void apply(inout int<32> x, out bit<32> answer) { \
            if (x != 0x7fffffff && x >= -0x7fffffff) { \
                x = x |+| (int<32>)element; \
            } \
            answer = (bit<32>)x; \
        } \
    }; \
    RegisterAction<int<32>, bit<15>, bit<32>>(slot_element) largest = { \
        void apply(inout int<32> x, out bit<32> answer) { x = max(x, (int<32>)element); answer = (bit<32>)x; } \
    }; \
    RegisterAction<int<32>, bit<15>, bit<32>>(slot_element) smallest = { \
        void apply(inout int<32> x, out bit<32> answer) { x = min(x, (int<32>)element); answer = (bit<32>)x; } \
    }; \
    @hidden action exchange() { element = swap.execute(slot); } \
    @hidden action add() { element = sum.execute(slot); } \
    @hidden action take_largest() { element = largest.execute(slot); } \
    @hidden action take_smallest() { element = smallest.execute(slot); }

// The lanes of the first stage, where it is not known yet whether the bitmaps overlap. What is taken along and overlaps is the slot's
// alone; the slot is free by then, so it does not matter what it gets.
control EarlyLane(inout bit<32> element, in bit<15> slot, in bit<8> work, in bit<32> overlap_high, in bit<32> overlap_low) {
    LANE_REGISTER
    @hidden table lane {
        key = {
            work: ternary;
            overlap_high: ternary;
            overlap_low: ternary;
        }
        actions = { exchange; add; take_largest; take_smallest; NoAction; }
        const default_action = NoAction;
        const entries = {
            (WORK_CLAIM, _, _): exchange();
            (WORK_PREEMPT, _, _): exchange();
            (WORK_MERGE | OP_SUM, 0, 0): add();
            (WORK_MERGE | OP_MAX, 0, 0): take_largest();
            (WORK_MERGE | OP_MIN, 0, 0): take_smallest();
            (WORK_TAKE | OP_SUM, 0, 0): add();
            (WORK_TAKE | OP_MAX, 0, 0): take_largest();
            (WORK_TAKE | OP_MIN, 0, 0): take_smallest();
            (WORK_TAKE &&& WORK_MASK, _, _): exchange();
        }
    }
    apply {
        lane.apply();
    }
}

// All others: the outcome says what to do.
control Lane(inout bit<32> element, in bit<15> slot, in bit<8> deed) {
    LANE_REGISTER
    @hidden table lane {
        key = { deed: ternary; }
        actions = { exchange; add; take_largest; take_smallest; NoAction; }
        const default_action = NoAction;
        const entries = {
            WORK_CLAIM: exchange();
            WORK_MERGE | OP_SUM: add();
            WORK_MERGE | OP_MAX: take_largest();
            WORK_MERGE | OP_MIN: take_smallest();
            WORK_TAKE | OP_SUM: add();
            WORK_TAKE | OP_MAX: take_largest();
            WORK_TAKE | OP_MIN: take_smallest();
        }
    }
    apply {
        lane.apply();
    }
}

#define LARGEST 0x7fffffff
#define SMALLEST 0x80000000

// Whether one of four lanes is at an end of the range. It takes a stage after theirs, so the four of the last stage are left to egress.
control Extremes(in bit<32> a, in bit<32> b, in bit<32> c, in bit<32> d, inout bit<1> extreme) {
    @hidden action at_an_end() {
        extreme = 1;
    }
    @hidden table ends {
        key = {
            a: ternary @name("a");
            b: ternary @name("b");
            c: ternary @name("c");
            d: ternary @name("d");
        }
        actions = { at_an_end; NoAction; }
        const default_action = NoAction;
        const entries = {
            (LARGEST, _, _, _): at_an_end();
            (SMALLEST, _, _, _): at_an_end();
            (_, LARGEST, _, _): at_an_end();
            (_, SMALLEST, _, _): at_an_end();
            (_, _, LARGEST, _): at_an_end();
            (_, _, SMALLEST, _): at_an_end();
            (_, _, _, LARGEST): at_an_end();
            (_, _, _, SMALLEST): at_an_end();
        }
    }
    apply {
        ends.apply();
    }
}

#define EACH_LATE_LANE(F) \
    F(00) F(01) F(02) F(03) F(04) F(05) F(06) F(07) F(08) F(09) F(10) F(11) F(12) F(13) \
    F(14) F(15) F(16) F(17) F(18) F(19) F(20) F(21) F(22) F(23) F(24) F(25) F(26) F(27)
#define EACH_EARLY_LANE(F) F(28) F(29) F(30) F(31)
#define EACH_FOUR(F) \
    F(04, 05, 06, 07) F(08, 09, 10, 11) F(12, 13, 14, 15) F(16, 17, 18, 19) F(20, 21, 22, 23) F(24, 25, 26, 27) F(28, 29, 30, 31)

control Elements(inout headers_t h, in metadata_t m) {
#define LANE(n) EarlyLane() lane_##n;
    EACH_EARLY_LANE(LANE)
#undef LANE
#define LANE(n) Lane() lane_##n;
    EACH_LATE_LANE(LANE)
#undef LANE
#define FOUR(a, b, c, d) Extremes() extremes_##a;
    EACH_FOUR(FOUR)
#undef FOUR
    apply {
#define LANE(n) lane_##n.apply(h.elements.e##n, h.spillway.slot[14:0], m.work, m.over_high, m.over_low);
        EACH_EARLY_LANE(LANE)
#undef LANE
#define LANE(n) lane_##n.apply(h.elements.e##n, h.spillway.slot[14:0], m.deed);
        EACH_LATE_LANE(LANE)
#undef LANE
#define FOUR(a, b, c, d) extremes_##a.apply(h.elements.e##a, h.elements.e##b, h.elements.e##c, h.elements.e##d, h.passage.extreme_##a);
        EACH_FOUR(FOUR)
#undef FOUR
    }
}
