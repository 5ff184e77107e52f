#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tutti::servers {

// Which rows of a server's part of a tensor have changed since the coordinator was last told its value: as versions of
// the tensor count.
class ChangedRows {
 public:
  void note(std::span<const int64_t> rows);
  void note_all() { told_ = 0; }
  // The rows that have changed since that version, each behind the one before; none where that may be any, or is most
  // of them.
  std::optional<std::vector<int64_t>> since(uint64_t version) const;
  // The coordinator is told of that version.
  void tell(uint64_t version, int64_t num_rows);

 private:
  uint64_t told_ = 0;  // 0: it was told none, or all rows may have changed
  int64_t num_rows_ = 0;
  std::vector<uint64_t> changed_;  // a bit for each row
};

}  // namespace tutti::servers
