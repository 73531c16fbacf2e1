// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <exception>
#include <iostream>
#include <string_view>
#include <utility>

#include "support.hpp"

namespace {

constexpr std::pair<std::string_view, bench::Bar> bars[] = {
    {"redis-async-64", bench::redis_async_64},
    {"redis-threads-64", bench::redis_threads_64},
    {"redis-threads-2", bench::redis_threads_2},
    {"redis-one", bench::redis_one},
    {"redis-timer", bench::redis_timer},
    {"redis-all-10", bench::redis_all_10},
    {"redis-handover", bench::redis_handover},
    {"redis-100k", bench::redis_100k},
    {"waiters-1000", bench::waiters_1000},
    {"sqlite-one", bench::sqlite_one},
    {"sqlite-16", bench::sqlite_16},
    {"sqlite-64", bench::sqlite_64},
    {"sqlite-handover", bench::sqlite_handover},
    {"sqlite-idle", bench::sqlite_idle},
    {"memory-one", bench::memory_one},
    {"memory-modes", bench::memory_modes},
    {"sqlite-modes", bench::sqlite_modes},
    {"redis-modes", bench::redis_modes},
    {"redis-readers-64", bench::redis_readers_64},
    {"redis-permits-1000", bench::redis_permits_1000},
    {"one-shot-keys", bench::one_shot_keys},
    {"cli-run", bench::cli_run},
};

int number(std::string_view text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value <= 0)
        throw std::runtime_error("not a positive number: " + std::string(text));
    return value;
}

bench::Settings settings(int count, char** arguments) {
    bench::Settings settings;
    for (int i = 2; i < count; ++i) {
        const std::string_view argument = arguments[i];
        const auto equals = argument.find('=');
        const auto name = argument.substr(0, equals);
        const auto value =
            equals == std::string_view::npos ? std::string_view{} : argument.substr(equals + 1);
        if (name == "--rounds")
            settings.rounds = number(value);
        else if (name == "--slice-ms")
            settings.slice = std::chrono::milliseconds(number(value));
        else if (name == "--port")
            settings.port = static_cast<std::uint16_t>(number(value));
        else if (name == "--dir")
            settings.dir = value;
        else if (name == "--dlock")
            settings.dlock = value;
        else
            throw std::runtime_error("unknown argument: " + std::string(argument));
    }
    return settings;
}

}  // namespace

int main(int count, char** arguments) try {
    const std::string_view name = count > 1 ? arguments[1] : "";
    for (const auto& [bar, run] : bars) {
        if (bar != name) continue;
        run(settings(count, arguments));
        return 0;
    }
    std::cerr
        << "usage: dlock_bench BAR [--rounds=N] [--slice-ms=N] [--port=N] [--dir=PATH] [--dlock=PATH]\n";
    return 64;
} catch (const std::exception& error) {
    std::cerr << "dlock_bench: " << error.what() << '\n';
    return 1;
}
