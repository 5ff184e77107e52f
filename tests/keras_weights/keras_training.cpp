// keras_training FOLDER BEFORE HALF: goes on with each training that train_on.py has left there, NAME.keras after
// BEFORE updates, on the batches of NAME.batches.npz: writes the file again, NAME.again.keras, makes HALF updates,
// writes NAME.own.keras, and makes HALF more. What the updates told goes to NAME.logs.npz.
#include <tutti/tutti.h>

#include <filesystem>
#include <map>
#include <string>

using namespace tutti;

namespace {

using Named = std::map<std::string, Tensor>;

keras::Batch batch_of(const Named& batches, int step) {
  const std::string number = std::to_string(step) + ':';
  std::vector<Tensor> labels;
  for (auto label = batches.find(number + "y0"); label != batches.end();
       label = batches.find(number + 'y' + std::to_string(labels.size())))
    labels.push_back(label->second);
  return {.x = batches.at(number + 'x'), .y = labels};
}

void train(const keras::Model& model, const Named& batches, int first, int count, Named& logs) {
  for (int step = first; step < first + count; ++step)
    for (const auto& [name, value] : model.train_on_batch(batch_of(batches, step)))
      logs[std::to_string(step) + ':' + name] = torch::scalar_tensor(value, torch::kDouble);
}

}  // namespace

int main(int, char** arguments) {
  const std::filesystem::path folder = arguments[1];
  const int before = std::stoi(arguments[2]), half = std::stoi(arguments[3]);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = entry.path().filename();
    const std::string name = file.substr(0, file.find('.'));
    if (file != name + ".keras") continue;
    const Named batches = files::read_npz(folder / (name + ".batches.npz"));
    const keras::Model model = keras::load_model(entry.path());
    model.save(folder / (name + ".again.keras"));
    Named logs;
    train(model, batches, before, half, logs);
    model.save(folder / (name + ".own.keras"));
    train(model, batches, before + half, half, logs);
    files::write_npz(folder / (name + ".logs.npz"), logs);
  }
}
