// One lane: the elements at one place of all slots. A sum that reaches an end of the range stays there, so that egress sees it,
// whatever is added later.

control Lane(inout bit<32> element, in bit<15> slot, in bit<8> work, in bit<32> overlap_high, in bit<32> overlap_low) {
    Register<int<32>, bit<15>>(SLOTS) slot_element;
    RegisterAction<int<32>, bit<15>, bit<32>>(slot_element) swap = {
        void apply(inout int<32> x, out bit<32> answer) { answer = (bit<32>)x; x = (int<32>)element; }
    };
    RegisterAction<int<32>, bit<15>, bit<32>>(slot_element) sum = {
        void apply(inout int<32> x, out bit<32> answer) {
            if (x != 0x7fffffff && x != -0x80000000) {
                x = x |+| (int<32>)element;
            }
            answer = (bit<32>)x;
        }
    };
    RegisterAction<int<32>, bit<15>, bit<32>>(slot_element) largest = {
        void apply(inout int<32> x, out bit<32> answer) { x = max(x, (int<32>)element); answer = (bit<32>)x; }
    };
    RegisterAction<int<32>, bit<15>, bit<32>>(slot_element) smallest = {
        void apply(inout int<32> x, out bit<32> answer) { x = min(x, (int<32>)element); answer = (bit<32>)x; }
    };
    action exchange() { element = swap.execute(slot); }
    action add() { element = sum.execute(slot); }
    action take_largest() { element = largest.execute(slot); }
    action take_smallest() { element = smallest.execute(slot); }
    // What is taken along and overlaps is the slot's alone; the slot is free by then, so it does not matter what it gets.
    table lane {
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

#define LARGEST 0x7fffffff
#define SMALLEST 0x80000000

// Whether one of four lanes is at an end of the range. It takes a stage after theirs, so the four of the last stage are left to egress.
control Extremes(in bit<32> a, in bit<32> b, in bit<32> c, in bit<32> d, inout bit<1> extreme) {
    action at_an_end() {
        extreme = 1;
    }
    table ends {
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

control Elements(inout headers_t h, in metadata_t m) {
#define LANE(n, k) Lane() lane_##n;
    EACH_LANE(LANE)
#undef LANE
#define FOURS(F) F(04, 05, 06, 07) F(08, 09, 10, 11) F(12, 13, 14, 15) F(16, 17, 18, 19) F(20, 21, 22, 23) \
        F(24, 25, 26, 27) F(28, 29, 30, 31)
#define FOUR(a, b, c, d) Extremes() extremes_##a;
    FOURS(FOUR)
#undef FOUR
    apply {
#define LANE(n, k) lane_##n.apply(h.elements.e##n, h.spillway.slot[14:0], m.work, m.over_high, m.over_low);
        EACH_LANE(LANE)
#undef LANE
#define FOUR(a, b, c, d) extremes_##a.apply(h.elements.e##a, h.elements.e##b, h.elements.e##c, h.elements.e##d, h.passage.extreme_##a);
        FOURS(FOUR)
#undef FOUR
    }
}
