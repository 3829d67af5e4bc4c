// P4Runtime ids of what a controller uses. Compilers make them up from names, but not all in the same way. Those of the counters are
// the ones that the compiler for Tofino gives them, which takes none from the source.
#ifndef SPILLWAY_IDS
#define SPILLWAY_IDS

#define ID_LIMITS 42032424
#define ID_FORWARD 49645444
#define ID_GROUP 35677609
#define ID_BRIDGE 38891126
#define ID_JOB 50004407
#define ID_MEMBER 46050835
#define ID_REGION 39474068
#define ID_UPLINK 48717430
#define ID_PUBLISH 33824441

#define ID_EVENTS 316471253
#define ID_PREEMPTED 306889076
#define ID_SATURATED 306391578

#endif
