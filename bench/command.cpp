// SPDX-License-Identifier: Apache-2.0
// `dlock run KEY -- true` beside `flock FILE true`, start to exit.
#include <cstdlib>

#include <spawn.h>
#include <sys/wait.h>

#include "support.hpp"

namespace bench {

namespace {

double run_us(std::vector<std::string> words) {
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const auto begin = Clock::now();
    pid_t pid = 0;
    if (posix_spawnp(&pid, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0)
        throw std::runtime_error("cannot start " + words[0]);
    int status = 0;
    waitpid(pid, &status, 0);
    const auto end = Clock::now();
    if (status != 0) throw std::runtime_error(words[0] + " failed with status " + std::to_string(status));
    return micros(end - begin);
}

}  // namespace

void cli_run(const Settings& settings) {
    setenv("DLOCK_STORE", ("sqlite:" + settings.dir + "/locks.db").c_str(), 1);
    const std::vector<std::string> ours{settings.dlock, "run", "--local", "bench", "--", "true"};
    const std::vector<std::string> raw{"flock", settings.dir + "/flock", "true"};
    run_us(ours);
    run_us(raw);
    Samples our_rounds;
    Samples raw_rounds;
    for (int round = 0; round < settings.rounds; ++round) {
        Samples our_samples;
        Samples raw_samples;
        for (const auto end = Clock::now() + settings.slice; Clock::now() < end;) {
            our_samples.push_back(run_us(ours));
            raw_samples.push_back(run_us(raw));
        }
        our_rounds.push_back(median(our_samples));
        raw_rounds.push_back(median(raw_samples));
    }
    report("cli-run", "us", our_rounds, raw_rounds);
}

}  // namespace bench
