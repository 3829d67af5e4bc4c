// The slots: claim, merge, complete, spill, preempt, free (docs/protocol.md, section 6).

// What is kept of a slot's chunk beside its elements: the marks that its RESULT will carry, and its op, which a partial sum that
// leaves in another chunk's packet needs.
#define FLAGS_MARKED 0x0F
#define MARKS(flags, op) ((flags) | (op) << 4)

control Slots(inout headers_t h, inout metadata_t m) {
    @name(".slot_id")
    register<bit<32>>(SLOTS) slot_id; // seq XOR the job's key
    @name(".slot_urgency")
    register<bit<32>>(SLOTS) slot_urgency; // 0: free
    @name(".slot_tag")
    register<bit<32>>(SLOTS) slot_tag; // job and generation
    @name(".slot_bitmap")
    register<bit<64>>(SLOTS) slot_bitmap;
    @name(".slot_flags")
    register<bit<8>>(SLOTS) slot_flags;

    @name(".private_slots")
    action private_slots() {
        m.in_region = true;
    }
    @name(".shared_slots")
    action shared_slots() {
        m.in_region = true;
    }
    @name(".first_come_slots")
    action first_come_slots() {
        m.in_region = true;
        m.first_come = true;
    }
    @name(".no_slots")
    action no_slots() {
        m.in_region = false;
    }
    @id(ID_REGION)
    @name(".region")
    table region {
        key = {
            h.spillway.job: exact @name("job");
            h.spillway.slot: ternary @name("slot");
        }
        actions = { private_slots; shared_slots; first_come_slots; @defaultonly no_slots; }
        const default_action = no_slots;
        size = REGIONS;
    }

    Elements() elements;

    bit<32> slot = 0;
    bit<32> id = 0;
    bit<32> tag = 0;
    bit<32> urgency = 0;
    bit<32> old_id = 0;
    bit<32> old_tag = 0;
    bit<32> old_urgency = 0;
    bit<64> old_bitmap = 0;
    bit<8> old_flags = 0;
    bit<8> marks = 0;
    bool held = false;
    bool same_id = false;
    bool same_chunk = false;
    bool stronger = false;
    bool may_rest = false;
    bool over = false;
    Work work = Work.NOTHING;

    @hidden action read_slot() {
        slot_id.read(old_id, slot);
        slot_urgency.read(old_urgency, slot);
        slot_tag.read(old_tag, slot);
        slot_bitmap.read(old_bitmap, slot);
        slot_flags.read(old_flags, slot);
    }

    @hidden action write_slot() {
        slot_id.write(slot, id);
        slot_urgency.write(slot, urgency);
        slot_tag.write(slot, tag);
        slot_bitmap.write(slot, m.bitmap);
        slot_flags.write(slot, marks);
    }

    @hidden action free_slot() {
        slot_urgency.write(slot, 0);
    }

    // DATA that may rest.
    @hidden action claim() {
        m.event = EVENT_CLAIMED;
        m.way = Way.ENDS;
        work = Work.STORE;
    }
    @hidden action merge() {
        m.event = EVENT_MERGED;
        m.way = Way.ENDS;
        work = Work.COMBINE;
        m.bitmap = m.bitmap | old_bitmap;
        marks = old_flags | (marks & FLAGS_MARKED);
    }
    @hidden action complete() {
        m.event = EVENT_COMPLETED;
        m.way = Way.PUBLISH;
    }
    @hidden action duplicate() {
        m.event = EVENT_DUPLICATE;
        m.way = Way.ENDS;
    }
    @hidden action preempt() {
        m.event = EVENT_PREEMPTS;
        m.way = Way.UP;
        m.preempting = true;
        work = Work.SWAP;
        m.content_job = old_tag[31:16];
        m.content_id = old_id;
        h.spillway.generation = old_tag[15:8];
        h.spillway.op = old_flags >> 4;
        m.bitmap = old_bitmap;
        marks = old_flags;
    }

    // DATA that may not, and finds its chunk in the slot.
    @hidden action take_along() {
        m.way = Way.UP;
        work = Work.TAKE;
        m.bitmap = old_bitmap;
        marks = marks | old_flags;
    }
    @hidden action unite() {
        m.way = Way.UP;
        work = Work.UNITE;
        m.bitmap = m.bitmap | old_bitmap;
        marks = marks | old_flags;
    }

    apply {
        region.apply();
        slot = (bit<32>)h.spillway.slot;
        id = h.spillway.seq ^ m.key;
        tag = h.spillway.job ++ h.spillway.generation ++ 8w0;
        urgency = h.spillway.priority ++ 24w0;
        if (h.ipv4.ecn == CONGESTION_EXPERIENCED) {
            marks = FLAG_ECN;
        }
        marks = MARKS(marks | (h.spillway.flags & FLAG_ECN), h.spillway.op);
        m.content_job = h.spillway.job;
        m.content_id = id;
        if (slot >= m.slots) {
            m.in_region = false;
        }
        if (m.in_region) {
            read_slot();
        }
        held = old_urgency != 0;
        same_id = old_id == id;
        same_chunk = held && same_id && old_tag == tag;
        stronger = (int<32>)urgency - (int<32>)old_urgency > MARGIN;
        may_rest = h.spillway.priority != 0 && h.spillway.priority[7:7] == 0 &&
            (h.spillway.flags & (FLAG_RESEND | FLAG_SATURATED | FLAG_PARTIAL)) == 0 && m.bitmap == m.bits;

        m.way = Way.ONWARD;
        if (h.spillway.type == TYPE_RESULT) {
            m.event = EVENT_FORWARDED;
            if (m.in_region && held && same_id) {
                m.event = EVENT_FREED;
                free_slot();
            }
            if (m.role == ROLE_ECHO) {
                m.way = Way.ENDS;
            }
        } else if (h.spillway.type != TYPE_DATA) {
            m.event = EVENT_FORWARDED;
        } else if (!m.in_region && h.spillway.slot != NO_SLOT) {
            m.event = EVENT_BAD_SLOT;
        } else if (!m.in_region || !h.elements.isValid() || h.spillway.elems > m.elements) {
            m.event = EVENT_PASSED;
        } else if (may_rest) {
            if (same_chunk && h.spillway.op != old_flags >> 4) {
                m.event = EVENT_MISMATCH;
            } else if (same_chunk) {
                if (stronger) {
                    slot_urgency.write(slot, urgency);
                }
                if ((m.bitmap & old_bitmap) != 0) {
                    duplicate();
                } else {
                    merge();
                    if (m.bitmap == (m.bits | m.rest)) {
                        complete();
                        free_slot();
                    } else {
                        slot_bitmap.write(slot, m.bitmap);
                    }
                }
            } else if (!held) {
                claim();
                write_slot();
            } else if (same_id || m.first_come) {
                m.event = EVENT_SPILLED;
            } else if (stronger) {
                write_slot();
                preempt();
            } else {
                m.event = EVENT_SPILLED;
                slot_urgency.write(slot, (bit<32>)((int<32>)old_urgency - AGE));
            }
        } else {
            m.event = EVENT_PASSED;
            if (held && same_id) {
                free_slot();
                if (same_chunk) {
                    m.event = EVENT_RESEND_EVICTED;
                    if ((m.bitmap & old_bitmap) == 0) {
                        unite();
                    } else {
                        if ((m.bitmap & ~old_bitmap) != 0) {
                            m.event = EVENT_OVERLAP;
                        }
                        take_along();
                    }
                }
            }
        }

        elements.apply(h, slot, work, over);
        if (over) {
            marks = marks | FLAG_SATURATED;
        }
        if (m.event == EVENT_MERGED) {
            slot_flags.write(slot, marks);
        }
        if (m.way == Way.UP || m.way == Way.PUBLISH) {
            h.spillway.bitmap_high = m.bitmap[63:32];
            h.spillway.bitmap_low = m.bitmap[31:0];
            m.saturated = (marks & FLAG_SATURATED) != 0;
            h.spillway.flags = (h.spillway.flags & ~FLAG_ECN) | (marks & (FLAG_ECN | FLAG_SATURATED));
        }
    }
}
