// CSV files: whatever the bytes are, all rows are read, or refused as data_loss or invalid_argument. The first byte
// gives the options. An iterator that was saved after the first row gives as many rows as the one that went on.
#include "tutti/data/csv_dataset.h"

#include "fuzz/scratch_file.h"
#include "tutti/core/error.h"

namespace tutti::data {
namespace {

int64_t rest(graph::Iterator& iterator) {
  int64_t count = 0;
  for (graph::Element element; iterator.next(element);) ++count;
  return count;
}

void read(const std::filesystem::path& path, const CsvOptions& options) {
  const graph::NodePtr node = csv_dataset({path}, options).node();
  const auto iterator = node->iterate({}), resumed = node->iterate({});
  graph::Element element;
  iterator->next(element);
  graph::StateWriter writer({});
  iterator->save(writer);
  graph::StateReader reader(writer.finish(), {});
  resumed->restore(reader);
  if (rest(*iterator) != rest(*resumed)) __builtin_trap();
}

}  // namespace
}  // namespace tutti::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  const data::CsvOptions options{.header = (data[0] & 1) != 0,
                                 .field_delim = (data[0] & 2) != 0 ? ',' : '\t',
                                 .use_quote_delim = (data[0] & 4) != 0,
                                 .na_value = (data[0] & 8) != 0 ? "NA" : "",
                                 .num_rows_for_inference = (data[0] & 16) != 0 ? 1 : 100};
  try {
    data::read(fuzz::scratch_file(data + 1, size - 1), options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::data_loss && error.code() != ErrorCode::invalid_argument) throw;
  }
  return 0;
}
