#pragma once

#include <chrono>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

// `tutti certificates`: what hosts prove to each other with.
namespace tutti::tools {

// Makes an authority and a certificate for each host, and writes ca.pem, ca.key, HOST.pem and HOST.key into the folder;
// keys only this user can read. A host may be given several names: "node7,10.0.0.7". Says how to use them. Returns the
// exit status. Throws: already_exists for files that are there, invalid_argument for what is no host.
int make_certificates(const std::filesystem::path& folder, const std::vector<std::string>& hosts,
                      std::chrono::hours valid_for, std::ostream& out);

}  // namespace tutti::tools
