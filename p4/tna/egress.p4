// What is due when a packet is about to leave: saturated sums are marked and counted, flooded frames do not go back.

control SpillwayEgress(inout headers_t h, inout egress_metadata_t m, in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t from_parser, inout egress_intrinsic_metadata_for_deparser_t deparser,
               inout egress_intrinsic_metadata_for_output_port_t port) {
    @name(".saturated")
    Counter<bit<64>, bit<8>>(JOBS, CounterType_t.PACKETS) saturated;

#define LARGEST 0x7fffffff
#define SMALLEST -0x80000000
#define FOUR_LANES(a, b, c, d, place) \
    action extreme_##a() { m.extremes[place:place] = 1; } \
    table extremes_##a { \
        key = { h.elements.e##a: ternary; h.elements.e##b: ternary; h.elements.e##c: ternary; h.elements.e##d: ternary; } \
        actions = { extreme_##a; NoAction; } \
        const default_action = NoAction; \
        const entries = { \
            (LARGEST, _, _, _): extreme_##a(); \
            (SMALLEST, _, _, _): extreme_##a(); \
            (_, LARGEST, _, _): extreme_##a(); \
            (_, SMALLEST, _, _): extreme_##a(); \
            (_, _, LARGEST, _): extreme_##a(); \
            (_, _, SMALLEST, _): extreme_##a(); \
            (_, _, _, LARGEST): extreme_##a(); \
            (_, _, _, SMALLEST): extreme_##a(); \
        } \
    }
    FOUR_LANES(00, 01, 02, 03, 0)
    FOUR_LANES(04, 05, 06, 07, 1)
    FOUR_LANES(08, 09, 10, 11, 2)
    FOUR_LANES(12, 13, 14, 15, 3)
    FOUR_LANES(16, 17, 18, 19, 4)
    FOUR_LANES(20, 21, 22, 23, 5)
    FOUR_LANES(24, 25, 26, 27, 6)
    FOUR_LANES(28, 29, 30, 31, 7)

    action mark() {
        h.spillway.flags = h.spillway.flags | FLAG_SATURATED;
    }
    action count_saturated() {
        saturated.count(h.passage.index);
    }
    action drop() {
        deparser.drop_ctl = 1;
    }

    apply {
        m.rewritten = h.passage.rewritten;
        m.published = h.passage.published;
        if (h.passage.summed == 1) {
            extremes_00.apply();
            extremes_04.apply();
            extremes_08.apply();
            extremes_12.apply();
            extremes_16.apply();
            extremes_20.apply();
            extremes_24.apply();
            extremes_28.apply();
            if (m.extremes != 0) {
                mark();
                // A published packet passes here once for each copy.
                if (h.passage.published == 0 || intrinsic.egress_rid_first == 1) {
                    count_saturated();
                }
            }
        }
        if (h.passage.flooded == 1 && h.passage.port == intrinsic.egress_port) {
            drop();
        }
    }
}
