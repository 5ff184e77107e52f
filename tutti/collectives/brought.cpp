#include "tutti/collectives/brought.h"

#include <atomic>

namespace tutti {

uint64_t next_type_key() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace tutti
