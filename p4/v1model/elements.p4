// The elements of a slot, and what is done with them and a packet's.

enum bit<3> Work {
    NOTHING = 0,
    STORE = 1,   // the packet's into the slot
    SWAP = 2,    // the packet's into the slot, the slot's into the packet
    COMBINE = 3, // slot and packet into both
    UNITE = 4,   // slot and packet into the packet
    TAKE = 5     // the slot's into the packet
}

struct lanes_t {
#define LANE(n, k) int<32> e##n;
    EACH_LANE(LANE)
#undef LANE
}

control Elements(inout headers_t h, in bit<32> slot, in Work work, out bool saturated) {
    @name(".slot_elements")
    register<int<32>>(SLOT_ELEMENTS) slot_elements;

    lanes_t old;
    bit<32> first = slot << 5;
    bit<32> overflow = 0; // not 0 when a sum left the range

    apply {
        if (work == Work.STORE) {
#define LANE(n, k) slot_elements.write(first + k, h.elements.e##n);
            EACH_LANE(LANE)
#undef LANE
        } else if (work != Work.NOTHING) {
            // BMv2 keeps a register's bits without their sign, and reads a negative element as one of 2^31 and more. The cast from
            // bits gives it its sign again.
#define LANE(n, k) slot_elements.read(old.e##n, first + k); old.e##n = (int<32>)(bit<32>)old.e##n;
            EACH_LANE(LANE)
#undef LANE
            if (work == Work.SWAP) {
#define LANE(n, k) slot_elements.write(first + k, h.elements.e##n);
                EACH_LANE(LANE)
#undef LANE
            }
            if (work == Work.SWAP || work == Work.TAKE) {
#define LANE(n, k) h.elements.e##n = old.e##n;
                EACH_LANE(LANE)
#undef LANE
            } else if (h.spillway.op == OP_SUM) {
#define LANE(n, k) overflow = overflow | ((bit<32>)(h.elements.e##n |+| old.e##n) ^ (bit<32>)(h.elements.e##n + old.e##n)); \
                h.elements.e##n = h.elements.e##n |+| old.e##n;
                EACH_LANE(LANE)
#undef LANE
            } else if (h.spillway.op == OP_MAX) {
#define LANE(n, k) h.elements.e##n = old.e##n > h.elements.e##n ? old.e##n : h.elements.e##n;
                EACH_LANE(LANE)
#undef LANE
            } else {
#define LANE(n, k) h.elements.e##n = old.e##n < h.elements.e##n ? old.e##n : h.elements.e##n;
                EACH_LANE(LANE)
#undef LANE
            }
            if (work == Work.COMBINE) {
#define LANE(n, k) slot_elements.write(first + k, h.elements.e##n);
                EACH_LANE(LANE)
#undef LANE
            }
        }
        saturated = overflow != 0;
    }
}
