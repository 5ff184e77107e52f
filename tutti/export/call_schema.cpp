#include "tutti/export/call_schema.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace tutti::saved_model {

const c10::FunctionSchema& schema_of(const Call& call) {
  const size_t dot = call.op.find('.');
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(call.op.substr(0, dot).c_str(),
                         dot == std::string::npos ? "" : call.op.substr(dot + 1).c_str())
      .schema();
}

std::vector<int> written_by(const Call& call) {
  std::vector<int> written;
  if (call.is_step) return written;
  const c10::FunctionSchema& schema = schema_of(call);
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
    if (!alias || !alias->isWrite()) continue;
    for (const int value : call.arguments[i].argument.values)
      if (value >= 0) written.push_back(value);
  }
  return written;
}

}  // namespace tutti::saved_model
