// From bytes to headers and back. A packet that is cut short is dropped by the parser.

parser IngressParser(packet_in packet, out headers_t h, out metadata_t m, out ingress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        packet.extract(h.ethernet);
        transition select(h.ethernet.type) {
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(h.ipv4);
        transition select(h.ipv4.version_ihl, h.ipv4.fragment, h.ipv4.protocol) {
            (IPV4_WITHOUT_OPTIONS, 0 &&& FRAGMENT_MASK, PROTOCOL_UDP): udp;
            default: accept;
        }
    }

    state udp {
        packet.extract(h.udp);
        transition select(h.udp.dst, h.udp.src) {
            (PORT_BLOCK &&& PORT_BLOCK_MASK, _): spillway;
            (_, PORT_BLOCK &&& PORT_BLOCK_MASK): spillway;
            default: accept;
        }
    }

    state spillway {
        packet.extract(h.spillway);
        transition select(h.spillway.type, h.spillway.elems) {
            (TYPE_DATA, SUMMED_ELEMENTS): elements;
            default: accept;
        }
    }

    state elements {
        packet.extract(h.elements);
        transition accept;
    }
}

control IngressDeparser(packet_out packet, inout headers_t h, in metadata_t m, in ingress_intrinsic_metadata_for_deparser_t intrinsic) {
    Checksum() ipv4_checksum;
    Checksum() udp_checksum;

    apply {
        if (m.rewritten == 1) {
            h.ipv4.checksum = ipv4_checksum.update({ h.ipv4.version_ihl, h.ipv4.dscp, h.ipv4.ecn, h.ipv4.length, h.ipv4.identification,
                h.ipv4.fragment, h.ipv4.ttl, h.ipv4.protocol, h.ipv4.src, h.ipv4.dst });
        }
        if (m.published == 1) {
            // The second argument: 0 would say that there is no checksum (RFC 768).
            h.udp.checksum = udp_checksum.update({ h.ipv4.src, h.ipv4.dst, 8w0, h.ipv4.protocol, h.udp.length,
                h.udp.src, h.udp.dst, h.udp.length,
                h.spillway.version, h.spillway.type, h.spillway.flags, h.spillway.op, h.spillway.job, h.spillway.generation,
                h.spillway.priority, h.spillway.cookie, h.spillway.seq, h.spillway.bitmap_high, h.spillway.bitmap_low,
                h.spillway.elems, h.spillway.slot
#define LANE(n, k) , h.elements.e##n
                EACH_LANE(LANE)
#undef LANE
                }, true);
        }
        packet.emit(h);
    }
}

struct egress_metadata_t {
    bit<1> extreme; // one of the first four lanes is at an end of the range
}

// Egress parses 160 bytes at most, which is why it sees four elements and not 32.
parser EgressParser(packet_in packet, out egress_headers_t h, out egress_metadata_t m, out egress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        packet.extract(h.passage);
        transition select(h.passage.summed) {
            1: sums;
            default: accept;
        }
    }

    state sums {
        packet.extract(h.ethernet);
        packet.extract(h.ipv4);
        packet.extract(h.udp);
        packet.extract(h.spillway);
        packet.extract(h.elements);
        transition accept;
    }
}

control EgressDeparser(packet_out packet, inout egress_headers_t h, in egress_metadata_t m,
                       in egress_intrinsic_metadata_for_deparser_t intrinsic) {
    apply {
        packet.emit(h.ethernet);
        packet.emit(h.ipv4);
        packet.emit(h.udp);
        packet.emit(h.spillway);
        packet.emit(h.elements);
    }
}
