// The first level of aggregation for BMv2 (v1model). It is the Tofino program's twin: the same tables, the same answers.
#include <core.p4>
#include <v1model.p4>

#define ELEMENT int<32>
#include "../shared/protocol.p4"
#include "../shared/rules.p4"
#include "../shared/ids.p4"
#include "state.p4"
#include "parser.p4"
#include "admission.p4"
#include "elements.p4"
#include "slots.p4"
#include "departure.p4"

control SpillwayIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    @id(ID_EVENTS)
    @name(".events")
    counter(EVENT_COUNTERS, CounterType.packets) events; // job index * 32 + event

    // What this target holds. A controller reads the default entry.
    @name(".set_limits")
    action set_limits(bit<32> slots, bit<16> elements) {
        m.slots = slots;
        m.elements = elements;
    }
    @id(ID_LIMITS)
    @name(".limits")
    table limits {
        actions = { @defaultonly set_limits; }
        const default_action = set_limits(SLOTS, SUMMED_ELEMENTS);
    }

    Admission() admission;
    Slots() slots;
    Departure() departure;

    apply {
        bool admitted = false;
        mark_to_drop(standard); // what nobody sends anywhere ends here
        limits.apply();
        if (m.spillway) {
            m.way = Way.ENDS;
            admission.apply(h, m, standard, admitted);
            if (admitted) {
                slots.apply(h, m);
            }
            events.count((bit<32>)(m.index ++ m.event[4:0]));
        } else {
            m.way = Way.ONWARD;
        }
        departure.apply(h, m, standard);
    }
}

control SpillwayEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    apply {
        // A flooded frame does not go back. What is published does: its sender waits for it too.
        if (m.flooded && standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);
        }
    }
}

@pkginfo(name="spillway", version="1")
V1Switch(PacketParser(), VerifyNothing(), SpillwayIngress(), SpillwayEgress(), Ipv4Checksum(), PacketDeparser()) main;
