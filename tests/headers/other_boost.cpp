// SPDX-License-Identifier: Apache-2.0
// A program with a Boost of its own that is not libdlock's: same names, other objects. Its function must be
// called for its calls, and never for libdlock's.
#include <cstdio>
#include <string>

#include <dlock/dlock.hpp>

namespace boost::json {

class value {
public:
    int number = 0;
};

std::string serialize(const value& shown) { return "the program's " + std::to_string(shown.number); }

}  // namespace boost::json

int main(int, char** words) {
    const std::string own = boost::json::serialize(boost::json::value{7});
    auto client = dlock::Client::open("sqlite:" + std::string(words[1]) + "/other_boost.db").value();
    auto mutex = client.mutex(dlock::Key{"other/boost"});
    const dlock::Lease lease = mutex.acquire();
    const auto second = mutex.try_acquire();
    const bool works = lease.held() && !second && second.error() == dlock::errc::contended;
    std::printf("%s; lock %s\n", own.c_str(), works ? "held" : "wrong");
    return own == "the program's 7" && works ? 0 : 1;
}
