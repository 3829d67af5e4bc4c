// From bytes to headers. Nothing is refused here: what is cut short leaves its header invalid, and admission sees that.

parser PacketParser(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    state start {
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
        m.spillway = true;
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

control VerifyNothing(inout headers_t h, inout metadata_t m) {
    apply { }
}

control Ipv4Checksum(inout headers_t h, inout metadata_t m) {
    apply {
        update_checksum(m.rewritten,
            { h.ipv4.version_ihl, h.ipv4.dscp, h.ipv4.ecn, h.ipv4.length, h.ipv4.identification, h.ipv4.fragment, h.ipv4.ttl,
              h.ipv4.protocol, h.ipv4.src, h.ipv4.dst },
            h.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control PacketDeparser(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.ethernet);
        packet.emit(h.ipv4);
        packet.emit(h.udp);
        packet.emit(h.spillway);
        packet.emit(h.elements);
    }
}
