// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sys/stat.h>
#include <sys/types.h>

#include "dlock/result.hpp"
#include "store/url.hpp"

/// The database as a file: where it is, whether it can be trusted to lock, and how it comes into being.
namespace dlock::store::sqlite {

/// Which file a path leads to; not the same as the file that was there before when that was deleted or
/// swapped.
struct FileId {
    dev_t device = 0;
    ino_t inode = 0;  ///< 0: there is none
    friend bool operator==(const FileId&, const FileId&) = default;
};
FileId file_id(const std::string& path) noexcept;

/// The log and its index beside the database. Losing one of them splits the processes that use the database
/// as surely as losing the database.
struct LogFiles {
    FileId log;
    FileId index;
    [[nodiscard]] bool complete() const noexcept { return log.inode != 0 && index.inode != 0; }
    friend bool operator==(const LogFiles&, const LogFiles&) = default;
};
LogFiles log_files(const std::string& database) noexcept;

class Location {
public:
    /// `sqlite:/absolute` or `sqlite:relative` (to the working directory of now). No file is touched.
    static Result<Location> from(const Url& url);

    /// As configured, made absolute.
    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] FileId file() const noexcept { return file_id(path_); }

    /// The file without symbolic links, which is what SQLite names its other files after. An error when the
    /// folder is missing or cannot be used.
    [[nodiscard]] Result<std::string> resolve() const;
    /// Makes the file, empty, unless there is one.
    [[nodiscard]] static Result<void> create(const std::string& resolved);

private:
    explicit Location(std::string path) noexcept : path_(std::move(path)) {}
    std::string path_;
};

/// Whether files of this type are shared between machines, where neither the file locks nor the shared memory
/// of SQLite can be relied on: the type's name then. `type` is what statfs says, `name` what the mount table
/// says.
std::optional<std::string> network_file_system(long type, std::string_view name);

}  // namespace dlock::store::sqlite
