// What the program knows about a packet, besides its headers.

#define SLOTS 32768

// From ingress to egress, in front of each packet.
header passage_h {
    bit<8> index;      // of the job whose elements it carries
    bit<1> extreme_04; // for every four lanes but the first: one of them is at an end of the range
    bit<1> extreme_08;
    bit<1> extreme_12;
    bit<1> extreme_16;
    bit<1> extreme_20;
    bit<1> extreme_24;
    bit<1> extreme_28;
    @padding bit<1> pad;
    bit<1> flooded;
    bit<1> summed;     // the elements are sums that may be saturated
    bit<1> published;
    @padding bit<4> pad2;
    bit<9> port;       // where the packet came in
}

// The first four elements again, for egress, which compares their bits: tables with constant entries take no negative numbers.
header first_elements_h {
    bit<32> e00;
    bit<32> e01;
    bit<32> e02;
    bit<32> e03;
}

struct egress_headers_t {
    passage_h passage;
    ethernet_h ethernet;
    ipv4_h ipv4;
    udp_h udp;
    spillway_h spillway;
    first_elements_h elements;
}

struct headers_t {
    passage_h passage;
    ethernet_h ethernet;
    ipv4_h ipv4;
    udp_h udp;
    spillway_h spillway;
    elements_h elements;
}

// What a Spillway packet is, from its header alone.
const bit<8> SHAPE_BAD = 0;
const bit<8> SHAPE_REST = 1;  // DATA that may rest, as far as its header says
const bit<8> SHAPE_TAKE = 2;  // DATA of 32 elements that takes along
const bit<8> SHAPE_LARGE = 3; // DATA of another length
const bit<8> SHAPE_RESULT = 4;
const bit<8> SHAPE_LARGE_RESULT = 5;
const bit<8> SHAPE_PROBE = 6;
const bit<8> SHAPE_HOME = 7; // SOLICIT, PENDING

// What the owner of the slot is asked, and what it answers: a predicate, one bit of four, for neither condition (1), the first, the
// second, both.
const bit<8> ASK_CONTEST = 1;
const bit<8> ASK_EVICT = 2;
const bit<8> ASK_FREE = 3;

const bit<8> FIRST = 2;
const bit<8> SECOND = 4;
const bit<8> BOTH = 8;

// What is done with slot and packet: the upper half says what, the lower the op.
const bit<8> WORK_NOTHING = 0x00;
const bit<8> WORK_MERGE = 0x10;
const bit<8> WORK_TAKE = 0x20;
const bit<8> WORK_CLAIM = 0x30;
const bit<8> WORK_PREEMPT = 0x31;
const bit<8> WORK_SPILL = 0x40;
const bit<8> WORK_FREE = 0x50;
const bit<8> WORK_MASK = 0xF0;

const bit<8> WAY_ENDS = 0;
const bit<8> WAY_ONWARD = 1;
const bit<8> WAY_UP = 2;
const bit<8> WAY_PUBLISH = 3;

// Where an address is looked up.
const bit<8> CAST_LINK = 0;
const bit<8> CAST_UNICAST = 1;
const bit<8> CAST_MULTICAST = 2;

const bit<8> NO_REGION = 0;
const bit<8> CONTESTED = 1; // private or shared slots
const bit<8> FIRST_COME = 2;

// What different tables of a stage write lies in different bytes: a container of the switch is written once in a stage. Words are used again
// for what is computed from them.
struct metadata_t {
    bit<8> cast;
    bit<8> shape;
    bit<8> empty;  // bitmap
    bit<8> region;
    bit<8> role;
    // Job: differences are 0 where the packet agrees.
    bit<8> known;
    bit<8> index;
    bit<8> generation_difference;
    bit<32> cookie_difference;
    int<32> id;
    bit<32> tag;
    int<32> urgency;
    bit<8> marks; // ECN, and the op in the upper half
    // Lengths.
    bit<16> payload;
    bit<16> ip_rest;
    bit<16> udp_rest;
    bit<32> over_high;    // the packet's bitmap but for the member's bits; then what it has in common with the slot's
    bit<32> over_low;
    bit<32> differs_high; // where the packet's bitmap differs from the member's bits; then what the slot's lacks of it
    bit<32> differs_low;
    bit<32> rest_high;    // what the others contribute; then where the slot's bitmap differs from that
    bit<32> rest_low;
    // Slot.
    bit<8> ask;
    bit<8> answer;
    bit<8> same_tag;
    bit<8> contest;
    bit<8> work;
    bit<8> deed; // the work that is left when the bitmaps have been compared
    int<32> old_id;
    int<32> old_urgency;
    bit<32> old_tag;
    bit<32> old_high;
    bit<32> old_low;
    bit<8> old_marks;
    // Departure.
    bit<8> way;
    bit<8> event;
    bit<13> counter;
    bit<8> preempting;
    bit<8> dropped;
    bit<1> rewritten; // addresses: the IPv4 checksum is due
    bit<1> published; // the UDP checksum is due
    bit<16> first_port;
    bit<16> port_mask;
    bit<16> port_offset;
}
