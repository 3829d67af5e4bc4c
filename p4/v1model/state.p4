// What the program knows about a packet, besides its headers.

#define SLOTS 4096
#define SLOT_ELEMENTS 131072 // 32 a slot

struct headers_t {
    ethernet_h ethernet;
    ipv4_h ipv4;
    udp_h udp;
    spillway_h spillway;
    elements_h elements;
}

// What becomes of a packet once the slots have decided.
enum bit<2> Way {
    ENDS = 0,
    ONWARD = 1,  // as it is, where its address says
    UP = 2,      // as a partial sum, to the home of its content
    PUBLISH = 3  // as a complete sum, to the workers or the parent
}

struct metadata_t {
    bool spillway; // UDP, with a port in the block of the homes
    bool flooded;
    bool rewritten;
    bool first_come;
    bool in_region;
    bool preempting;
    Way way;
    bit<8> event;
    // limits
    bit<32> slots;
    bit<16> elements;
    // job
    bit<8> index;
    bit<8> generation;
    bit<32> cookie;
    bit<32> key;
    // member
    bit<8> role;
    bit<64> bits;
    bit<64> rest;
    bit<64> bitmap; // the packet's
    // What the packet carries when the slots are done with it: the job it belongs to, and its id there.
    bit<16> content_job;
    bit<32> content_id;
    bit<8> content_index;
    bool saturated; // by this switch
}
