// The first level of aggregation for Tofino (tna) and Tofino 2 (t2na). docs/tofino.md says what happens in which stage.
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif

#include "../shared/protocol.p4"
#include "../shared/rules.p4"
#include "state.p4"
#include "parser.p4"
#include "admission.p4"
#include "slots.p4"
#include "elements.p4"
#include "departure.p4"
#include "egress.p4"

control SpillwayIngress(inout headers_t h, inout metadata_t m, in ingress_intrinsic_metadata_t intrinsic,
                in ingress_intrinsic_metadata_from_parser_t from_parser,
                inout ingress_intrinsic_metadata_for_deparser_t deparser,
                inout ingress_intrinsic_metadata_for_tm_t manager) {
    // What this target holds. A controller reads it from the p4info.
    @name(".set_limits")
    action set_limits(bit<32> slots, bit<16> elements) { }
    @name(".limits")
    table limits {
        actions = { @defaultonly set_limits; }
        const default_action = set_limits(SLOTS, SUMMED_ELEMENTS);
    }

    Lookups() lookups;
    Verdict() verdict;
    Owner() owner;
    Content() content;
    Comparison() comparison;
    Elements() elements;
    Outcome() outcome;
    Departure() departure;

    apply {
        limits.apply();
        h.passage.setValid();
        h.passage.index = 0;
        h.passage.extremes = 0;
        h.passage.flooded = 0;
        h.passage.summed = 0;
        h.passage.published = 0;
        m.way = WAY_ONWARD;
        if (h.spillway.isValid()) {
            m.spillway = 1;
            lookups.apply(h, m, intrinsic);
            verdict.apply(h, m);
            owner.apply(h, m);
            content.apply(h, m);
            comparison.apply(h, m);
            elements.apply(h, m);
            outcome.apply(h, m);
        }
        departure.apply(h, m, intrinsic, deparser, manager);
    }
}

@pkginfo(name="spillway", version="1")
Pipeline(IngressParser(), SpillwayIngress(), IngressDeparser(), EgressParser(), SpillwayEgress(), EgressDeparser()) pipe;

Switch(pipe) main;
