#include "tutti/collectives/shared_memory/call_record.h"

#include <algorithm>
#include <cstring>

#include "tutti/core/fingerprint64.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

void write_text(char (&to)[64], std::string_view text) {
  const size_t length = std::min(text.size(), sizeof to - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

std::string read_text(const char (&from)[64]) { return {from, strnlen(from, sizeof from)}; }

}  // namespace

void write_record(CallRecord& record, const Collective& call, uint64_t buffer) {
  const std::string_view name = call.name, path = call.where.file_name();
  record.name_hash = fingerprint64(name);
  record.count = call.count;
  record.divisor = call.divisor;
  record.peer = call.peer;
  record.line = call.where.line();
  record.kind = call.kind;
  record.dtype = call.dtype;
  record.place = call.place;
  record.buffer = buffer;
  write_text(record.name, name);
  write_text(record.file, path.substr(path.rfind('/') + 1));
}

std::string to_string(const CallRecord& record) {
  const std::string name = read_text(record.name);
  const Collective call{.kind = record.kind,
                        .dtype = record.dtype,
                        .count = record.count,
                        .place = record.place,
                        .peer = record.peer,
                        .divisor = record.divisor,
                        .name = name.c_str()};
  return to_string(call, str(read_text(record.file), ':', record.line));
}

bool agree(const CallRecord& a, const CallRecord& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.count == b.count && a.place == b.place && a.peer == b.peer &&
         a.divisor == b.divisor && a.name_hash == b.name_hash;
}

bool agree_as_pair(const CallRecord& send, const CallRecord& receive) {
  return send.dtype == receive.dtype && send.count == receive.count && send.place == receive.place &&
         send.name_hash == receive.name_hash;
}

}  // namespace tutti
