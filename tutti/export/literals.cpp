#include "tutti/export/literals.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <map>
#include <set>

#include "tutti/export/call_schema.h"
#include "tutti/export/same_bits.h"

namespace tutti::saved_model {
namespace {

using Memory = const c10::StorageImpl*;  // null: of text, of variables, of what has none

struct Filling {
  int value;
  std::vector<size_t> calls;
  int64_t num_writes = 0;
  bool is_used = false;  // by a call that does more than fill it
  bool is_written_after = false;
};

Memory memory_of(int value, const std::vector<Value>& kept) {
  if (value < 0 || value >= kFirstVariable) return nullptr;
  const Value& found = kept[static_cast<size_t>(value)];
  if (found.is_text() || !found.tensor().defined() || !found.tensor().has_storage()) return nullptr;
  return found.tensor().storage().unsafeGetStorageImpl();
}

bool draws(const Call& call) {
  const c10::FunctionSchema& schema = schema_of(call);
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(schema.name().c_str(), schema.overload_name().c_str())
      .hasTag(at::Tag::nondeterministic_seeded);
}

std::set<Memory> memory_touched_by(const Call& call, const std::vector<Value>& kept) {
  std::set<Memory> touched;
  for (const int value : operands_of(call)) touched.insert(memory_of(value, kept));
  for (const Call::Result& result : call.results)
    for (const int value : result.values) touched.insert(memory_of(value, kept));
  return touched;
}

// How often calls that remain and outputs read each value.
std::map<int, int> count_reads(const Recorded& run, const std::vector<bool>& is_removed) {
  std::map<int, int> reads;
  for (const int value : run.outputs) ++reads[value];
  for (size_t i = 0; i < run.calls.size(); ++i)
    if (!is_removed[i])
      for (const int value : operands_of(run.calls[i])) ++reads[value];
  return reads;
}

// Writes have no place in a program without what they fill; a view remains where something reads it.
std::vector<bool> calls_to_remove(const Recorded& run, const std::vector<size_t>& chosen) {
  std::vector<bool> is_removed(run.calls.size());
  std::set<size_t> views;
  for (const size_t literal : chosen)
    for (const size_t i : run.literals[literal].calls) {
      const bool is_view = !makes_memory_without_value(run.calls[i]) && written_by(run.calls[i]).empty();
      if (is_view) views.insert(i);
      is_removed[i] = !is_view;
    }
  std::map<int, int> reads = count_reads(run, is_removed);
  for (auto i = views.rbegin(); i != views.rend(); ++i) {
    const std::vector<int> operands = operands_of(run.calls[*i]);
    for (const int value : operands) --reads[value];
    const auto gives_what_is_read = [&](const Call::Result& result) {
      return std::ranges::any_of(result.values, [&](int value) {
        return reads[value] > 0 && std::ranges::find(operands, value) == operands.end();
      });
    };
    is_removed[*i] = std::ranges::none_of(run.calls[*i].results, gives_what_is_read);
    if (!is_removed[*i])
      for (const int value : operands) ++reads[value];
  }
  return is_removed;
}

template <class T>
void remove_marked(std::vector<T>& items, const std::vector<bool>& is_removed) {
  size_t kept = 0;
  for (size_t i = 0; i < items.size(); ++i)
    if (!is_removed[i]) std::swap(items[kept++], items[i]);
  items.resize(kept);
}

// Values that no call makes any more leave no gap among the numbers.
void renumber(Recorded& run, std::vector<int> number_of, const std::vector<bool>& is_made) {
  int next = 0;
  for (size_t value = 0; value < is_made.size(); ++value)
    if (is_made[value]) number_of[value] = next++;
  const auto change = [&](int& value) {
    if (value >= 0 && value < kFirstVariable) value = number_of[static_cast<size_t>(value)];
  };
  for (Call& call : run.calls) {
    for (auto& [name, argument] : call.arguments) std::ranges::for_each(argument.values, change);
    for (Call::Result& result : call.results) std::ranges::for_each(result.values, change);
  }
  for (auto& step : run.step_results) change(step.value);
  std::ranges::for_each(run.outputs, change);
  std::vector<bool> is_removed = is_made;
  is_removed.flip();
  remove_marked(run.forms, is_removed);
}

void fold(Recorded& run, const std::vector<size_t>& chosen) {
  const std::vector<bool> is_removed = calls_to_remove(run, chosen);
  std::vector<int> number_of(run.forms.size(), -1);
  std::vector<bool> is_made(run.forms.size(), true);
  const auto mark_results = [&](bool of_removed) {
    for (size_t i = 0; i < run.calls.size(); ++i)
      for (const Call::Result& result : run.calls[i].results)
        for (const int value : result.values)
          if (value >= 0 && value < kFirstVariable && is_removed[i] == of_removed)
            is_made[static_cast<size_t>(value)] = !of_removed;
  };
  mark_results(true);
  mark_results(false);  // a view is there though a call that wrote to it has gone
  for (const size_t literal : chosen) {
    const auto [value, contents, calls] = run.literals[literal];
    is_made[static_cast<size_t>(value)] = false;
    number_of[static_cast<size_t>(value)] = kFirstVariable + static_cast<int>(run.variables.size());
    run.variables.push_back({.tensor = contents, .name = "", .is_made = true});
  }
  remove_marked(run.calls, is_removed);
  if (!run.places.empty()) remove_marked(run.places, is_removed);
  renumber(run, std::move(number_of), is_made);
  run.literals.clear();
}

}  // namespace

std::vector<Recorded::Literal> find_literals(const std::vector<Call>& calls, const std::vector<Value>& kept) {
  std::map<Memory, Filling> fillings;
  for (size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    const std::set<Memory> touched = memory_touched_by(call, kept);
    if (makes_memory_without_value(call) && operands_of(call).empty()) {
      const int value = call.results[0].values[0];
      if (const Memory memory = memory_of(value, kept)) fillings[memory] = {.value = value, .calls = {i}};
      continue;
    }
    const std::vector<int> written = written_by(call);
    for (const Memory memory : touched) {
      const auto found = fillings.find(memory);
      if (found == fillings.end()) continue;
      Filling& filling = found->second;
      if (touched.size() == 1 && !filling.is_used && !draws(call)) {
        filling.calls.push_back(i);
        filling.num_writes += !written.empty();
        continue;
      }
      filling.is_used = true;
      filling.is_written_after |=
          std::ranges::any_of(written, [&](int value) { return memory_of(value, kept) == memory; });
    }
  }
  std::vector<Recorded::Literal> literals;
  for (const auto& [memory, filling] : fillings) {
    const Tensor& tensor = kept[static_cast<size_t>(filling.value)].tensor();
    if (filling.is_written_after || tensor.numel() == 0 || filling.num_writes < tensor.numel()) continue;
    literals.push_back({filling.value, tensor.clone(), filling.calls});
  }
  std::ranges::sort(literals, {}, &Recorded::Literal::value);
  return literals;
}

void fold_literals(std::vector<Recorded>& runs) {
  const std::vector<Recorded::Literal>& first = runs[0].literals;
  std::vector<size_t> chosen;
  for (size_t i = 0; i < first.size(); ++i)
    if (std::ranges::all_of(runs, [&](const Recorded& run) {
          return i < run.literals.size() && run.literals[i].calls == first[i].calls &&
                 same_bits(run.literals[i].contents, first[i].contents);
        }))
      chosen.push_back(i);
  if (chosen.empty()) return;
  for (Recorded& run : runs) fold(run, chosen);
}

}  // namespace tutti::saved_model
