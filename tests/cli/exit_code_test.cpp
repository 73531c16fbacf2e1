// SPDX-License-Identifier: Apache-2.0
#include "cli/exit_code.hpp"

#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

namespace dlock::cli {
namespace {

/// First and last cell of each row of the table in docs/errors.md.
std::map<std::string, std::string> documented() {
    std::ifstream file(DLOCK_DOCS "/errors.md");
    std::map<std::string, std::string> rows;
    for (std::string line; std::getline(file, line);) {
        std::vector<std::string> cells;
        std::istringstream text(line);
        for (std::string cell; std::getline(text, cell, '|');) {
            const auto begin = cell.find_first_not_of(" `");
            const auto end = cell.find_last_not_of(" `");
            cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
        }
        if (cells.size() == 6) rows[cells[1]] = cells[5];
    }
    return rows;
}

TEST(ExitCode, docs_have_every_error_with_its_code) {
    const auto rows = documented();
    for (int value = 1; value <= static_cast<int>(errc::store_error); ++value) {
        const std::error_code code = make_error_code(static_cast<errc>(value));
        const auto row = rows.find(name_of(code));
        ASSERT_NE(row, rows.end()) << name_of(code);
        EXPECT_EQ(row->second, std::to_string(exit_code_of(code))) << name_of(code);
    }
}

TEST(ExitCode, names_are_those_of_errc) {
    EXPECT_EQ(name_of(errc::not_owner), "not_owner");
    EXPECT_EQ(name_of(errc::unknown_outcome), "unknown_outcome");
    EXPECT_EQ(name_of(errc::foreign_record), "foreign_record");
}

TEST(ExitCode, what_is_not_of_dlock_is_internal) {
    EXPECT_EQ(exit_code_of(std::make_error_code(std::errc::no_space_on_device)), exit_code::internal);
}

TEST(ExitCode, failure_of_an_error) {
    const Failure failure(Error(errc::unknown_outcome, "no answer"));
    EXPECT_EQ(failure.exit(), exit_code::unavailable);
    EXPECT_EQ(failure.fault(), Fault::indeterminate);
    EXPECT_EQ(failure.detail(), "no answer");
    EXPECT_EQ(Failure(Error(errc::lost, "")).detail(), "lost");
}

}  // namespace
}  // namespace dlock::cli
