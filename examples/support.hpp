// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

/// What the examples share and no program needs.
namespace examples {

/// An empty folder, removed at the end.
class TempFolder {
public:
    TempFolder() : path_((std::filesystem::temp_directory_path() / "dlock-example-XXXXXX").string()) {
        if (mkdtemp(path_.data()) == nullptr) throw std::system_error(errno, std::generic_category(), path_);
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    ~TempFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
    /// An SQLite store of its own.
    [[nodiscard]] std::string store() const { return "sqlite:" + file("locks.db"); }

private:
    std::string path_;
};

}  // namespace examples
