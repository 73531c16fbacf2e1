// SPDX-License-Identifier: Apache-2.0
// Boost.JSON itself, compiled into what we link: in a program with another Boost, calls from libdlock to a
// shared one would end in the program's.
#include <boost/json/src.hpp>
