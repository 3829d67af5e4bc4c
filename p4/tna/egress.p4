// What is due when a packet is about to leave: saturated sums are marked and counted, flooded frames do not go back.

control SpillwayEgress(inout egress_headers_t h, inout egress_metadata_t m, in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t from_parser, inout egress_intrinsic_metadata_for_deparser_t deparser,
               inout egress_intrinsic_metadata_for_output_port_t port) {
    @id(ID_SATURATED)
    @name(".saturated")
    Counter<bit<64>, bit<8>>(JOBS, CounterType_t.PACKETS) saturated;

    @hidden action at_an_end() {
        m.extreme = 1;
    }
    @hidden table first_elements {
        key = {
            h.elements.e00: ternary;
            h.elements.e01: ternary;
            h.elements.e02: ternary;
            h.elements.e03: ternary;
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

    @hidden action mark() {
        h.spillway.flags = h.spillway.flags | FLAG_SATURATED;
        h.udp.checksum = 0; // none: it was computed in ingress, without the flag
    }
    @hidden action count_saturated() {
        saturated.count(h.passage.index);
    }
    @hidden action drop() {
        deparser.drop_ctl = 1;
    }

    apply {
        if (h.passage.summed == 1) {
            first_elements.apply();
            if (h.passage.extreme_04 == 1 || h.passage.extreme_08 == 1 || h.passage.extreme_12 == 1 || h.passage.extreme_16 == 1 ||
                    h.passage.extreme_20 == 1 || h.passage.extreme_24 == 1 || h.passage.extreme_28 == 1 || m.extreme == 1) {
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
