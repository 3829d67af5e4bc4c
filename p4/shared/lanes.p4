// A packet's 32 elements, one by one: EACH_LANE(F) is F(00, 0) F(01, 1) ... F(31, 31), for macros that take the two digits of
// a name and the number.
#ifndef SPILLWAY_LANES
#define SPILLWAY_LANES

#define EACH_LANE(F) \
    F(00, 0) F(01, 1) F(02, 2) F(03, 3) \
    F(04, 4) F(05, 5) F(06, 6) F(07, 7) \
    F(08, 8) F(09, 9) F(10, 10) F(11, 11) \
    F(12, 12) F(13, 13) F(14, 14) F(15, 15) \
    F(16, 16) F(17, 17) F(18, 18) F(19, 19) \
    F(20, 20) F(21, 21) F(22, 22) F(23, 23) \
    F(24, 24) F(25, 25) F(26, 26) F(27, 27) \
    F(28, 28) F(29, 29) F(30, 30) F(31, 31)

#endif
