#include "tutti/checkpoint/checkpoint_list.h"

#include <algorithm>

#include "tutti/checkpoint/folder.h"
#include "tutti/checkpoint/sealed_json.h"
#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"

namespace tutti::checkpoint {
namespace {

constexpr std::string_view kListFormat = "tutti checkpoint list";

ListedCheckpoint parse_checkpoint(JsonReader& json) {
  ListedCheckpoint checkpoint;
  json.object([&](std::string_view key) {
    if (key == "number")
      checkpoint.number = json.integer();
    else if (key == "saved_at")
      checkpoint.saved_at = json.integer();
    else if (key == "kept")
      checkpoint.kept = json.integer() != 0;
    else
      json.fail(str("unknown key \"", key, "\" of a checkpoint"));
  });
  if (checkpoint.number < 0) json.fail(str("a checkpoint has the number ", checkpoint.number));
  return checkpoint;
}

}  // namespace

void CheckpointList::reconcile(std::span<const int64_t> found, int64_t now, bool damage) {
  std::vector<int64_t> unlisted(found.begin(), found.end());
  std::ranges::sort(unlisted);
  std::erase_if(checkpoints, [&](const ListedCheckpoint& listed) { return std::erase(unlisted, listed.number) == 0; });
  const int64_t latest = checkpoints.empty() ? -1 : checkpoints.back().number;
  const auto newer = std::ranges::upper_bound(unlisted, latest);
  size_t front = 0;
  for (auto number = unlisted.begin(); number != newer; ++number)
    checkpoints.insert(checkpoints.begin() + static_cast<std::ptrdiff_t>(front++), {*number, now, damage});
  for (auto number = newer; number != unlisted.end(); ++number) checkpoints.push_back({*number, now, damage});
}

int64_t CheckpointList::next_number() const {
  int64_t largest = 0;
  for (const ListedCheckpoint& checkpoint : checkpoints) largest = std::max(largest, checkpoint.number);
  if (largest >= kMaxNumber)
    throw Error(ErrorCode::failed_precondition,
                str("checkpoint: there is a checkpoint of the number ", largest,
                    ", which has no next one. Give a number to save(), or move that one away"));
  return largest + 1;
}

void CheckpointList::add(ListedCheckpoint checkpoint) {
  std::erase_if(checkpoints, [&](const ListedCheckpoint& listed) { return listed.number == checkpoint.number; });
  if (checkpoints.empty() && last_preserved_at == 0) last_preserved_at = checkpoint.saved_at;
  checkpoints.push_back(checkpoint);
}

std::vector<int64_t> CheckpointList::expire(const Retention& retention) {
  std::vector<int64_t> doomed;
  if (!retention.max_to_keep) return doomed;
  auto count = std::ranges::count(checkpoints, false, &ListedCheckpoint::kept);
  for (ListedCheckpoint& checkpoint : checkpoints) {
    if (count <= *retention.max_to_keep) break;
    if (checkpoint.kept) continue;
    --count;
    const bool is_multiple = retention.keep_multiples_of > 0 && checkpoint.number % retention.keep_multiples_of == 0;
    const bool is_due =
        retention.keep_every.count() > 0 && checkpoint.saved_at - last_preserved_at >= retention.keep_every.count();
    if (is_due) last_preserved_at = checkpoint.saved_at;
    checkpoint.kept = is_multiple || is_due;
    if (!checkpoint.kept) doomed.push_back(checkpoint.number);
  }
  return doomed;
}

std::string list_text(const CheckpointList& list) {
  std::string out = str("{\"format\":\"", kListFormat, "\",\"version\":");
  out.append(std::to_string(kFormatVersion)).append(",\"last_preserved_at\":");
  out.append(std::to_string(list.last_preserved_at)).append(",\"checkpoints\":[");
  for (const ListedCheckpoint& checkpoint : list.checkpoints) {
    if (out.back() != '[') out += ',';
    out.append("{\"number\":").append(std::to_string(checkpoint.number));
    out.append(",\"saved_at\":").append(std::to_string(checkpoint.saved_at));
    out.append(",\"kept\":").append(checkpoint.kept ? "1}" : "0}");
  }
  return seal(out + "]}");
}

CheckpointList parse_list(std::string text, const std::string& source) {
  const std::string unsealed = unseal(std::move(text), source);
  JsonReader json(unsealed, source);
  CheckpointList list;
  std::string format;
  int64_t version = 0;
  json.object([&](std::string_view key) {
    if (key == "format")
      format = json.text();
    else if (key == "version")
      version = read_version(json, kListFormat, format);
    else if (key == "last_preserved_at")
      list.last_preserved_at = json.integer();
    else if (key == "checkpoints")
      json.array([&] { list.checkpoints.push_back(parse_checkpoint(json)); });
    else
      json.fail(str("unknown key \"", key, "\""));
  });
  json.end();
  if (version == 0) json.fail("no version");
  return list;
}

}  // namespace tutti::checkpoint
