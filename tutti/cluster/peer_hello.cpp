#include "tutti/cluster/peer_hello.h"

#include <link.h>

#include <cstring>

#include "tutti/core/bytes.h"
#include "tutti/core/error.h"
#include "tutti/core/fingerprint64.h"
#include "tutti/core/str.h"

namespace tutti::cluster {
namespace {

constexpr char kMagic[] = "tutti peer";

void write_digest(ByteWriter& writer, const rpc::Digest& digest) { writer.raw(digest.data(), digest.size()); }

rpc::Digest read_digest(ByteReader& reader) {
  rpc::Digest digest;
  std::memcpy(digest.data(), reader.raw(digest.size()), digest.size());
  return digest;
}

// The build id among the notes of a loaded object: name size, description size, type, "GNU", the id.
std::string build_id(const uint8_t* notes, size_t size) {
  while (size >= 12) {
    uint32_t name_size, id_size, type;
    std::memcpy(&name_size, notes, 4);
    std::memcpy(&id_size, notes + 4, 4);
    std::memcpy(&type, notes + 8, 4);
    const size_t name_end = 12 + ((size_t{name_size} + 3) & ~size_t{3}),
                 end = name_end + ((size_t{id_size} + 3) & ~size_t{3});
    if (end > size) break;
    if (type == 3 && name_size == 4 && std::memcmp(notes + 12, "GNU", 4) == 0) {
      std::string text;
      for (size_t i = 0; i < id_size; ++i) {
        constexpr char kDigits[] = "0123456789abcdef";
        text += kDigits[notes[name_end + i] >> 4];
        text += kDigits[notes[name_end + i] & 15];
      }
      return text;
    }
    notes += end;
    size -= end;
  }
  return {};
}

int find_build_id(dl_phdr_info* object, size_t, void* found) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    auto& text = *static_cast<std::string*>(found);
    text = build_id(reinterpret_cast<const uint8_t*>(object->dlpi_addr + header.p_vaddr), header.p_memsz);
    if (!text.empty()) break;
  }
  return 1;  // the first object is the program
}

}  // namespace

std::vector<uint8_t> encode(const PeerHello& hello) {
  ByteWriter writer;
  writer.text(kMagic);
  writer.number(hello.version);
  writer.text(hello.task.type);
  writer.number(hello.task.index);
  writer.text(hello.program);
  writer.text(hello.spec);
  writer.text(hello.purpose);
  writer.number(hello.attempt);
  write_digest(writer, hello.nonce);
  writer.text(hello.memory);
  return writer.bytes();
}

PeerHello decode_peer_hello(std::span<const uint8_t> bytes) {
  ByteReader reader(bytes, "the greeting of a process");
  if (reader.text() != kMagic) reader.damaged("it does not begin as one");
  PeerHello hello;
  hello.version = reader.number();
  if (hello.version != kPeerVersion) return hello;  // what follows may be anything
  hello.task.type = reader.text();
  hello.task.index = static_cast<int>(reader.number_in(0, kMaxTasks));
  hello.program = reader.text();
  hello.spec = reader.text();
  hello.purpose = reader.text();
  hello.attempt = reader.number();
  hello.nonce = read_digest(reader);
  hello.memory = reader.text();
  reader.finish();
  return hello;
}

std::vector<uint8_t> encode(const Challenge& challenge) {
  ByteWriter writer;
  write_digest(writer, challenge.nonce);
  write_digest(writer, challenge.proof);
  return writer.bytes();
}

Challenge decode_challenge(std::span<const uint8_t> bytes) {
  ByteReader reader(bytes, "the answer to a greeting");
  Challenge challenge;
  challenge.nonce = read_digest(reader);
  challenge.proof = read_digest(reader);
  reader.finish();
  return challenge;
}

std::vector<uint8_t> encode(const rpc::Digest& proof) { return {proof.begin(), proof.end()}; }

rpc::Digest decode_proof(std::span<const uint8_t> bytes) {
  ByteReader reader(bytes, "a proof");
  const rpc::Digest proof = read_digest(reader);
  reader.finish();
  return proof;
}

std::vector<uint8_t> encode(const Verdict& verdict) {
  ByteWriter writer;
  writer.number(verdict.is_welcome);
  writer.number(verdict.code);
  writer.text(verdict.text);
  writer.number(verdict.shares_memory);
  return writer.bytes();
}

Verdict decode_verdict(std::span<const uint8_t> bytes) {
  ByteReader reader(bytes, "a verdict");
  Verdict verdict;
  verdict.is_welcome = reader.number_in(0, 1) == 1;
  verdict.code = reader.number_in(0, static_cast<int64_t>(ErrorCode::internal));
  verdict.text = reader.text();
  verdict.shares_memory = reader.number_in(0, 1) == 1;
  reader.finish();
  return verdict;
}

std::string spec_text(const ClusterSpec& spec) {
  std::string text = to_string(spec);
  return text.size() <= kMaxSpecText ? text : str("fingerprint ", fingerprint64(text));
}

std::string spec_difference(const std::string& here, const std::string& there) {
  if (!here.starts_with('{') || !there.starts_with('{')) return "they are too long to be shown";
  const ClusterSpec one = ClusterSpec::parse(here), other = ClusterSpec::parse(there);
  const auto of = [](const ClusterSpec& spec, const Task& task) {
    if (!spec.has(task)) return std::string("not there");
    return spec.address(task).empty() ? std::string("without an address") : spec.address(task);
  };
  for (const ClusterSpec* spec : {&one, &other})
    for (const auto& [name, job] : spec->jobs())
      for (const auto& [index, address] : job) {
        const Task task{name, index};
        if (one.has(task) != other.has(task) || of(one, task) != of(other, task))
          return str(to_string(task), " is ", of(one, task), " here and ", of(other, task), " there");
      }
  return "they are written differently";
}

std::string program_build() {
  std::string text;
  dl_iterate_phdr(find_build_id, &text);
  return text;
}

}  // namespace tutti::cluster
