// What every ToR counts and compares, whatever it is made of: events, urgency, the size of the tables (docs/protocol.md, section 6).
#ifndef SPILLWAY_RULES
#define SPILLWAY_RULES

// Urgency of a packet: its priority, 1 to 127, in the uppermost byte of a signed word. 0 is a free slot.
const int<32> AGE = 1 << 16;    // what a slot loses in a contest that it wins
const int<32> MARGIN = 1 << 23; // by more than this a packet must be ahead to take a slot: half a level

// A job has 32 counters, one an event. Each Spillway packet is one event; those of jobs that are not known count for index 0.
const bit<8> EVENT_CLAIMED = 0;
const bit<8> EVENT_MERGED = 1;
const bit<8> EVENT_COMPLETED = 2;
const bit<8> EVENT_PREEMPTS = 3;
const bit<8> EVENT_SPILLED = 4;
const bit<8> EVENT_RESEND_EVICTED = 5;
const bit<8> EVENT_PASSED = 6;
const bit<8> EVENT_DUPLICATE = 7;
const bit<8> EVENT_OVERLAP = 8;
const bit<8> EVENT_FREED = 9;
const bit<8> EVENT_FORWARDED = 10;
const bit<8> EVENT_MISMATCH = 11;
const bit<8> EVENT_UNKNOWN_JOB = 16;
const bit<8> EVENT_STALE = 17;
const bit<8> EVENT_BAD_COOKIE = 18;
const bit<8> EVENT_NOT_MEMBER = 19;
const bit<8> EVENT_BAD_BITMAP = 20;
const bit<8> EVENT_BAD_SLOT = 21;
const bit<8> EVENT_BAD_HEADER = 22;
const bit<8> EVENT_BAD_DIRECTION = 23;

// Who may send what, by the entry of table member.
const bit<8> ROLE_STRANGER = 0;
const bit<8> ROLE_WORKER = 1;
const bit<8> ROLE_HOME = 2;
const bit<8> ROLE_ECHO = 3; // the switch's own copy of a RESULT

// Table sizes.
#define ROUTES 1024
#define JOBS 256
#define MEMBERS 4096
#define REGIONS 512
#define EVENT_COUNTERS 8192

#endif
