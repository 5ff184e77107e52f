#include "tutti/tools/certificates_command.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <ostream>

#include "tutti/cluster/rpc/certificates.h"
#include "tutti/core/error.h"
#include "tutti/core/file_descriptor.h"
#include "tutti/core/str.h"
#include "tutti/tools/output_folder.h"

namespace tutti::tools {
namespace {

void write_new(const std::filesystem::path& path, const std::string& text, mode_t mode) {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file && errno == EEXIST)
    throw Error(ErrorCode::already_exists, str(path.string(), " is there already: name another folder, or remove it"));
  if (!file || write(file.number(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw Error(ErrorCode::failed_precondition, str(path.string(), " cannot be written: ", std::strerror(errno)));
}

void write_pair(const std::filesystem::path& folder, const std::string& name, const rpc::KeyPair& pair) {
  write_new(folder / (name + ".key"), pair.key, 0600);
  write_new(folder / (name + ".pem"), pair.certificate, 0644);
}

}  // namespace

int make_certificates(const std::filesystem::path& folder, const std::vector<std::string>& hosts,
                      std::chrono::hours valid_for, std::ostream& out) {
  if (hosts.empty()) throw Error(ErrorCode::invalid_argument, "which hosts? Name each as the others reach it");
  const rpc::Certificates made = rpc::make_certificates(hosts, valid_for);
  make_output_folder(folder);
  write_pair(folder, "ca", made.authority);
  for (size_t i = 0; i < hosts.size(); ++i) write_pair(folder, hosts[i].substr(0, hosts[i].find(',')), made.hosts[i]);
  out << "Take ca.pem, HOST.pem and HOST.key to each host, and set there:\n"
         "  TUTTI_TLS_CA=ca.pem TUTTI_TLS_CERTIFICATE=HOST.pem TUTTI_TLS_KEY=HOST.key\n"
         "Whoever has ca.key can make more of them: keep it elsewhere.\n";
  return 0;
}

}  // namespace tutti::tools
