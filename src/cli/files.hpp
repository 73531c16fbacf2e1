// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "dlock/lease_id.hpp"

namespace dlock::cli {

/// Writes all of it: 0, or the errno that stopped it.
int write_all(int fd, std::string_view text) noexcept;

/// Puts the whole text under the name or leaves what was there; nobody reads half of it. Failure (125).
void replace_file(const std::string& path, std::string_view text);

/// A file in the user's folder for temporary files, mode 0600, gone with this object.
class TemporaryFile {
public:
    TemporaryFile();
    ~TemporaryFile();
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    void write(std::string_view text) const;
    [[nodiscard]] const std::string& path() const noexcept { return path_; }

private:
    std::string path_;
    int fd_ = -1;
};

/// The lease id of a file, of stdin ("-") or, with an empty name, of the file that DLOCK_LEASE_FILE names.
LeaseId read_lease_id(const std::string& source);

/// The text of a small file without the blanks around it. Failure (78) when there is none.
std::string read_small_file(const std::string& path, std::string_view what);

}  // namespace dlock::cli
