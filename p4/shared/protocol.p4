// The packet format and its words, as wire/ defines them; docs/protocol.md says what they mean.
#ifndef SPILLWAY_PROTOCOL
#define SPILLWAY_PROTOCOL

#include "lanes.p4"

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8> IPV4_WITHOUT_OPTIONS = 0x45; // version 4, five words
const bit<16> FRAGMENT_MASK = 0x3FFF;     // more fragments, and the offset
const bit<8> PROTOCOL_UDP = 17;
const bit<2> CONGESTION_EXPERIENCED = 3; // RFC 3168

// The homes' ports lie in this block, and nothing else does: 9696 ... 9727.
const bit<16> PORT_BLOCK = 0x25E0;
const bit<16> PORT_BLOCK_MASK = 0xFFE0;

const bit<8> VERSION = 1;

const bit<8> TYPE_DATA = 1;
const bit<8> TYPE_RESULT = 2;
const bit<8> TYPE_SOLICIT = 3;
const bit<8> TYPE_PENDING = 4;
const bit<8> TYPE_PROBE = 5;

const bit<8> FLAG_RESEND = 1;
const bit<8> FLAG_SATURATED = 2;
const bit<8> FLAG_PARTIAL = 4;
const bit<8> FLAG_ECN = 8;

const bit<8> OP_SUM = 0;
const bit<8> OP_MAX = 1;
const bit<8> OP_MIN = 2;

// Bytes. The longest packet of the protocol has 832 elements; this pipeline sums packets of exactly 32.
const bit<16> IPV4_SIZE = 20;
const bit<16> UDP_SIZE = 8;
const bit<16> HEADER_SIZE = 28;
const bit<16> MAX_ELEMENTS = 832;
const bit<16> SUMMED_ELEMENTS = 32;

const bit<16> NO_SLOT = 0xFFFF;

header ethernet_h {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_h {
    bit<8> version_ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> length;
    bit<16> identification;
    bit<16> fragment; // three flags, 13 bits of offset
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header udp_h {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    bit<16> checksum;
}

header spillway_h {
    bit<8> version;
    bit<8> type;
    bit<8> flags;
    bit<8> op;
    bit<16> job;
    bit<8> generation;
    bit<8> priority;
    bit<32> cookie;
    bit<32> seq;
    bit<32> bitmap_high; // in words, as a switch's ALUs take it
    bit<32> bitmap_low;
    bit<16> elems;
    bit<16> slot;
}

// ELEMENT is bit<32> or int<32>, as the program's target takes it.
header elements_h {
#define LANE(n, k) ELEMENT e##n;
    EACH_LANE(LANE)
#undef LANE
}

#endif
