// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/location.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/ids.hpp"

namespace dlock::store::sqlite {
namespace {

constexpr std::size_t longest_path = 480;  // SQLite's own limit is 512, with its suffixes
constexpr long fuse_magic = 0x65735546;

std::string os_message(int error) { return std::generic_category().message(error); }

std::string real_path(const std::string& path) {
    const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr), &std::free);
    return real ? std::string(real.get()) : std::string();
}

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
}

/// The type by name from the mount table: statfs tells one FUSE file system from another no more than that.
std::string mounted_as(dev_t device) {
    std::ifstream table("/proc/self/mountinfo");
    const std::string wanted = std::to_string(major(device)) + ":" + std::to_string(minor(device));
    for (std::string line; std::getline(table, line);) {
        std::istringstream words(line);
        std::string id, parent, number, word;
        words >> id >> parent >> number;
        if (number != wanted) continue;
        while (words >> word && word != "-") {
        }
        return words >> word ? word : std::string();
    }
    return {};
}

Result<void> check_file_system(const std::string& folder) {
    struct statfs info {};
    if (statfs(folder.c_str(), &info) != 0)
        return Error(errc::unavailable,
                     "cannot look at the file system of " + folder + ": " + os_message(errno));
    std::string name;
    if (info.f_type == fuse_magic) {
        struct stat status {};
        if (stat(folder.c_str(), &status) == 0) name = mounted_as(status.st_dev);
    }
    const auto shared = network_file_system(info.f_type, name);
    if (!shared) return {};
    return Error(
        errc::unsupported,
        folder + " is on a network file system (" + *shared +
            "), whose file locks do not hold between machines; use a folder on a local disk, or a server "
            "store such as redis://",
        Fault::fatal);
}

Error no_folder(const std::string& folder, int error) {
    if (error == ENOENT)
        return {errc::unavailable,
                "the folder " + folder + " does not exist; make it: mkdir -p '" + folder + "'", Fault::fatal};
    if (error == EACCES)
        return {errc::unauthorized,
                "no right to enter the folder " + folder + "; check owner and mode (ls -ld)"};
    return {errc::unavailable, "cannot use the folder " + folder + ": " + os_message(error), Fault::fatal};
}

/// Private to the user, or shared with the folder's group where that group may write the folder (and not
/// everybody may): who can add files there is meant to share them. A file that someone made writable for all
/// by hand is accepted, since that is the one way to exclude all users of a host; we never make one.
struct Permissions {
    mode_t mode = 0600;
    gid_t group = static_cast<gid_t>(-1);
};
Permissions permissions_in(const std::string& folder) {
    struct stat status {};
    Permissions permissions;
    if (stat(folder.c_str(), &status) == 0 && (status.st_mode & S_IWGRP) != 0 &&
        (status.st_mode & S_IWOTH) == 0) {
        permissions.mode = 0660;
        permissions.group = status.st_gid;
    }
    return permissions;
}

Error not_made(const std::string& path, int error) {
    const std::string text = "cannot make " + path + ": " + os_message(error);
    if (error == EACCES || error == EPERM)
        return {errc::unauthorized, text + "; check owner and mode of its folder (ls -ld)"};
    if (error == ENOSPC || error == EDQUOT) return {errc::unavailable, text + "; free some", Fault::retry};
    return {errc::unavailable, text, Fault::fatal};
}

}  // namespace

FileId file_id(const std::string& path) noexcept {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) return {};
    return {.device = status.st_dev, .inode = status.st_ino};
}

LogFiles log_files(const std::string& database) noexcept {
    return {.log = file_id(database + "-wal"), .index = file_id(database + "-shm")};
}

Result<Location> Location::from(const Url& url) {
    if (const auto known = url.allow_params({}); !known) return known.error();
    if (!url.hosts.empty() || !url.user.empty())
        return Error(errc::invalid_argument,
                     "an sqlite URL names a file of this host: sqlite:/absolute/path.db");
    std::string path = url.path;
    if (path.empty() || path.back() == '/')
        return Error(errc::invalid_argument, "the sqlite URL names no file: sqlite:/absolute/path.db");
    if (path.front() != '/') {
        const std::string here = real_path(".");
        if (here.empty())
            return Error(errc::invalid_argument,
                         "the sqlite URL is relative and there is no working directory");
        path.insert(0, here + "/");
    }
    if (path.size() > longest_path)
        return Error(errc::invalid_argument,
                     "the path of the sqlite URL is longer than " + std::to_string(longest_path) + " bytes");
    return Location(std::move(path));
}

Result<std::string> Location::resolve() const {
    const std::string folder = folder_of(path_);
    const std::string real_folder = real_path(folder);
    if (real_folder.empty()) return no_folder(folder, errno);
    std::string resolved = real_path(path_);
    if (resolved.empty()) {
        struct stat status {};
        if (lstat(path_.c_str(), &status) == 0 && S_ISLNK(status.st_mode))
            return Error(errc::unavailable, path_ + " is a symbolic link that leads nowhere", Fault::fatal);
        resolved = (real_folder == "/" ? "" : real_folder) + path_.substr(path_.rfind('/'));
    } else {
        struct stat status {};
        if (stat(resolved.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
            return Error(errc::invalid_argument, path_ + " is not a file; name the file of the database");
    }
    if (const auto local = check_file_system(folder_of(resolved)); !local) return local.error();
    return resolved;
}

Result<void> Location::create(const std::string& resolved) {
    // Made aside and linked to its name, so that nobody meets it with other permissions, and closed before
    // anybody can have it open: closing any descriptor of a file drops all locks that the process has on it.
    const std::string folder = folder_of(resolved);
    const std::string aside = resolved + "-new-" + core::random_id<core::TicketId>().hex();
    const Permissions permissions = permissions_in(folder);
    const int made = open(aside.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (made < 0) return not_made(resolved, errno);
    const bool shared =
        permissions.mode == 0600 || fchown(made, static_cast<uid_t>(-1), permissions.group) == 0;
    int failed = fchmod(made, shared ? permissions.mode : 0600) == 0 ? 0 : errno;
    close(made);
    if (failed == 0 && link(aside.c_str(), resolved.c_str()) != 0 && errno != EEXIST) failed = errno;
    unlink(aside.c_str());
    if (failed != 0) return not_made(resolved, failed);
    return {};
}

std::optional<std::string> network_file_system(long type, std::string_view name) {
    struct Known {
        long type;
        std::string_view name;
    };
    static constexpr std::array known{
        Known{0x6969, "nfs"},          Known{0x517B, "smb"},        Known{0xFF534D42, "cifs"},
        Known{0xFE534D42, "smb3"},     Known{0x01021997, "9p"},     Known{0x00C36400, "ceph"},
        Known{0x5346414F, "afs"},      Known{0x6B414653, "afs"},    Known{0x73757245, "coda"},
        Known{0x564C, "ncp"},          Known{0x0BD00BD0, "lustre"}, Known{0x01161970, "gfs2"},
        Known{0x7461636F, "ocfs2"},    Known{0x47504653, "gpfs"},   Known{0x19830326, "beegfs"},
        Known{0x20030528, "orangefs"}, Known{0x786F4256, "vboxsf"}, Known{0xBACBACBC, "vmhgfs"},
    };
    if (type == fuse_magic) {
        // Most of FUSE is remote, or cannot share memory maps; these few are a local disk behind a filter.
        static constexpr std::array<std::string_view, 6> local{
            "fuseblk", "fuse.fuse-overlayfs", "fuse.gocryptfs", "fuse.encfs", "fuse.bindfs", "fuse.mergerfs"};
        if (std::find(local.begin(), local.end(), name) != local.end()) return std::nullopt;
        return name.empty() ? "fuse" : std::string(name);
    }
    const auto found = std::find_if(known.begin(), known.end(), [type](const Known& k) {
        return static_cast<unsigned int>(k.type) == static_cast<unsigned int>(type);
    });
    if (found == known.end()) return std::nullopt;
    return std::string(found->name);
}

}  // namespace dlock::store::sqlite
