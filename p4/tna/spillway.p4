// The first level of aggregation for Tofino (tna) and Tofino 2 (t2na). docs/tofino.md says what happens in which stage.
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif

#define ELEMENT bit<32>
#include "../shared/protocol.p4"
#include "../shared/rules.p4"
#include "../shared/ids.p4"
#include "state.p4"
#include "parser.p4"
#include "admission.p4"
#include "slots.p4"
#include "elements.p4"
#include "departure.p4"
#include "egress.p4"

@pa_container_size("ingress", "h.elements.e00", 32)
@pa_container_size("ingress", "h.elements.e01", 32)
@pa_container_size("ingress", "h.elements.e02", 32)
@pa_container_size("ingress", "h.elements.e03", 32)
@pa_container_size("ingress", "h.elements.e04", 32)
@pa_container_size("ingress", "h.elements.e05", 32)
@pa_container_size("ingress", "h.elements.e06", 32)
@pa_container_size("ingress", "h.elements.e07", 32)
@pa_container_size("ingress", "h.elements.e08", 32)
@pa_container_size("ingress", "h.elements.e09", 32)
@pa_container_size("ingress", "h.elements.e10", 32)
@pa_container_size("ingress", "h.elements.e11", 32)
@pa_container_size("ingress", "h.elements.e12", 32)
@pa_container_size("ingress", "h.elements.e13", 32)
@pa_container_size("ingress", "h.elements.e14", 32)
@pa_container_size("ingress", "h.elements.e15", 32)
@pa_container_size("ingress", "h.elements.e16", 32)
@pa_container_size("ingress", "h.elements.e17", 32)
@pa_container_size("ingress", "h.elements.e18", 32)
@pa_container_size("ingress", "h.elements.e19", 32)
@pa_container_size("ingress", "h.elements.e20", 32)
@pa_container_size("ingress", "h.elements.e21", 32)
@pa_container_size("ingress", "h.elements.e22", 32)
@pa_container_size("ingress", "h.elements.e23", 32)
@pa_container_size("ingress", "h.elements.e24", 32)
@pa_container_size("ingress", "h.elements.e25", 32)
@pa_container_size("ingress", "h.elements.e26", 32)
@pa_container_size("ingress", "h.elements.e27", 32)
@pa_container_size("ingress", "h.elements.e28", 32)
@pa_container_size("ingress", "h.elements.e29", 32)
@pa_container_size("ingress", "h.elements.e30", 32)
@pa_container_size("ingress", "h.elements.e31", 32)
@pa_container_size("ingress", "h.passage.extreme_04", 8)
@pa_container_size("ingress", "h.passage.flooded", 8)
control SpillwayIngress(inout headers_t h, inout metadata_t m, in ingress_intrinsic_metadata_t intrinsic,
                in ingress_intrinsic_metadata_from_parser_t from_parser,
                inout ingress_intrinsic_metadata_for_deparser_t deparser,
                inout ingress_intrinsic_metadata_for_tm_t manager) {
    // What this target holds. A controller reads it from the p4info.
    @name(".set_limits")
    action set_limits(bit<32> slots, bit<16> elements) { }
    @id(ID_LIMITS)
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

    // A flat sequence: a condition around more than one table would hold up all that comes after it.
    apply {
        limits.apply();
        h.passage.setValid();
        h.passage.index = 0;
        h.passage.extreme_04 = 0;
        h.passage.extreme_08 = 0;
        h.passage.extreme_12 = 0;
        h.passage.extreme_16 = 0;
        h.passage.extreme_20 = 0;
        h.passage.extreme_24 = 0;
        h.passage.extreme_28 = 0;
        h.passage.flooded = 0;
        h.passage.summed = 0;
        h.passage.published = 0;
        h.passage.port = intrinsic.ingress_port;
        m.way = WAY_ONWARD;
        lookups.apply(h, m, intrinsic);
        owner.apply(h, m);
        content.apply(h, m);
        verdict.apply(h, m);
        comparison.apply(h, m);
        outcome.apply(h, m);
        elements.apply(h, m);
        departure.apply(h, m, intrinsic, deparser, manager);
    }
}

@pkginfo(name="spillway", version="1")
Pipeline(IngressParser(), SpillwayIngress(), IngressDeparser(), EgressParser(), SpillwayEgress(), EgressDeparser()) pipe;

Switch(pipe) main;
