// SPDX-License-Identifier: Apache-2.0
#include "cli/files.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/exit_code.hpp"

namespace dlock::cli {
namespace {

[[noreturn]] void fail(int exit, const std::string& what, const std::string& path, int problem) {
    throw Failure(exit, "file", what + " " + path + ": " + std::strerror(problem));
}

/// Up to 16 KiB; a lease id or a URL is never longer.
std::optional<std::string> read_all(int fd) {
    std::string text(16384, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        const ssize_t got = ::read(fd, text.data() + size, text.size() - size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::nullopt;
        if (got == 0) break;
        size += static_cast<std::size_t>(got);
    }
    text.resize(size);
    return text;
}

std::string trimmed(const std::string& text) {
    constexpr const char* blanks = " \t\r\n";
    const auto begin = text.find_first_not_of(blanks);
    if (begin == std::string::npos) return {};
    return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::string temporary_folder() {
    for (const char* name : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
        const char* folder = std::getenv(name);
        if (folder != nullptr && *folder == '/' && ::access(folder, W_OK | X_OK) == 0) return folder;
    }
    return "/tmp";
}

}  // namespace

int write_all(int fd, std::string_view text) noexcept {
    while (!text.empty()) {
        const ssize_t written = ::write(fd, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return errno;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return 0;
}

void replace_file(const std::string& path, std::string_view text) {
    std::string fresh = path + ".XXXXXX";
    const int fd = ::mkostemp(fresh.data(), O_CLOEXEC);  // mode 0600
    if (fd < 0) fail(exit_code::internal, "cannot write", path, errno);
    int problem = write_all(fd, text);
    if (::close(fd) != 0 && problem == 0) problem = errno;
    if (problem == 0 && ::rename(fresh.c_str(), path.c_str()) != 0) problem = errno;
    if (problem == 0) return;
    ::unlink(fresh.c_str());
    fail(exit_code::internal, "cannot write", path, problem);
}

TemporaryFile::TemporaryFile() : path_(temporary_folder() + "/dlock-XXXXXX") {
    fd_ = ::mkostemp(path_.data(), O_CLOEXEC);
    if (fd_ < 0) fail(exit_code::internal, "cannot make the lease file", path_, errno);
}

TemporaryFile::~TemporaryFile() {
    ::close(fd_);
    ::unlink(path_.c_str());
}

void TemporaryFile::write(std::string_view text) const {
    if (const int problem = write_all(fd_, text); problem != 0)
        fail(exit_code::internal, "cannot write the lease file", path_, problem);
}

std::string read_small_file(const std::string& path, std::string_view what) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail(exit_code::configuration, "cannot read " + std::string(what), path, errno);
    const std::optional<std::string> text = read_all(fd);
    const int problem = errno;
    ::close(fd);
    if (!text) fail(exit_code::configuration, "cannot read " + std::string(what), path, problem);
    return trimmed(*text);
}

LeaseId read_lease_id(const std::string& source) {
    if (source == "-") {
        const std::optional<std::string> text = read_all(STDIN_FILENO);
        if (!text) fail(exit_code::usage, "cannot read the lease id from", "stdin", errno);
        return value_or_fail(LeaseId::parse(trimmed(*text)));
    }
    const char* from_environment = std::getenv("DLOCK_LEASE_FILE");
    const std::string path = !source.empty() ? source : from_environment != nullptr ? from_environment : "";
    if (path.empty())
        throw Failure(
            errc::invalid_argument,
            "no lease id: give --id-file FILE, or - to read it from stdin, or set DLOCK_LEASE_FILE");
    return value_or_fail(LeaseId::parse(read_small_file(path, "the lease id file")));
}

}  // namespace dlock::cli
