// Fuzz target: learners of any parameters on numbers of any size, and learners from forged states.
// The input is a program: parameters first, then learn, predict, look, save, restore, merge or
// forge.
//
// Checked: predictions are finite and within the bound; a row that is refused leaves rounds,
// features and predictions as they were; what is saved can be restored, to the same bits; a forged
// state is refused with std::invalid_argument, or gives a learner that learns, predicts, merges and
// saves.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "sonline/errors.hpp"
#include "sonline/model.hpp"

namespace {

using namespace sonline;

constexpr double kSizes[] = {0,    5e-324, 1e-310, 1e-200, 1e-80, 1e-45, 1e-38, 1e-20,
                             1e-8, 0.1,    1,      1,      1,     3,     1e3,   1e8,
                             1e17, 1e18,   1e38,   1e75,   1e149, 1e150};
constexpr Key kKeys[] = {0,
                         1,
                         2,
                         3,
                         5,
                         8,
                         1023,
                         1024,
                         8191,
                         uint64_t{1} << 31,
                         uint64_t{1} << 32,
                         (uint64_t{1} << 63) - 1,
                         kNamed,
                         kNamed + 1,
                         kNamed + 2,
                         kNamed + 7};
constexpr Key kNames = 8;  // ids that a name table would have

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), end_(data + size) {}
  bool empty() const { return data_ == end_; }
  uint8_t byte() { return empty() ? 0 : *data_++; }
  size_t below(size_t limit) { return byte() % limit; }
  template <class T, size_t n>
  T pick(const T (&values)[n]) {
    return values[below(n)];
  }
  // A signed number of any size up to `largest`.
  double number(double largest) {
    const uint8_t choice = byte();
    double size = kSizes[choice % std::size(kSizes)];
    if (choice >= 220) size *= 1 + byte() / 64.0;
    return std::copysign(std::min(size, largest), choice & 64 ? -1 : 1);
  }

 private:
  const uint8_t* data_;
  const uint8_t* end_;
};

struct Setup {
  Config config;
  bool single = true;
};

Setup read_setup(Input& in) {
  Setup setup;
  Config& c = setup.config;
  constexpr double kLevels[] = {0.5, 1e-9, 1 - 1e-9};
  const LossEntry& loss = kLosses[in.below(kLosses.size())];
  LossParameters parameters;
  parameters.quantile = in.pick(kLevels);
  c.loss = loss.make(parameters);
  const auto names = sketch_names();
  c.sketch_name = names[in.below(names.size())];
  c.root = c.sketch_name == "adagrad";
  const bool single_weights =
      c.root || c.sketch_name == "full" || c.sketch_name == "fd" || c.sketch_name == "rfd";
  constexpr size_t kSketchSizes[] = {0, 1, 2, 3, 5, 10, 17};
  c.sketch.size = in.pick(kSketchSizes);
  constexpr double kAlphas[] = {1, 1e-300, 1e-12, 1e-9, 1e12, 1e300};
  const uint8_t flags = in.byte(), more = in.byte();
  const bool several = (flags & 1) && !single_weights;
  if (several) {
    c.experts = {{1e-3, 0}, {1, 0}, {1, 100}, {1e3, 0}};
    c.relative = true;
  } else {
    c.experts = {{in.pick(kAlphas), 0}};
    c.relative = flags & 2;
  }
  c.sketch.experts = c.experts.size();
  c.sketch.alpha = c.experts[0].alpha;
  c.sketch.fixed_alpha = !c.relative;
  constexpr double kBounds[] = {HUGE_VAL, HUGE_VAL, 1, 1e-300, 1e300};
  c.bound = in.pick(kBounds);
  c.clip = flags & 4;
  c.unit_free = several && !c.loss->binary && std::isinf(c.bound);
  c.follow_labels = c.unit_free && (flags & 8);
  c.explicit_step = c.sketch.explicit_step = !several && (flags & 16);
  c.hessian = c.loss->hessian && (flags & 32);
  constexpr size_t kEvery[] = {1, 1, 2, 7};
  c.sketch_every = several && (more & 8)               ? 0
                   : c.root || c.sketch_name == "full" ? 1
                                                       : in.pick(kEvery);
  constexpr double kOften[] = {0, 0, 1, 1e300};
  c.sigma = in.pick(kOften);
  c.eta = in.pick(kOften);
  c.eta_convex = c.eta == 0 && c.sigma == 0;
  constexpr double kOjaSteps[] = {1, 1e-300, 1e300};
  c.sketch.oja_step = in.pick(kOjaSteps);
  c.sketch.scale_free = more & 1;
  constexpr Scaling kScalings[] = {Scaling::automatic, Scaling::rms, Scaling::gradient,
                                   Scaling::none};
  c.scaling = kScalings[more >> 1 & 3];
  c.intercept = c.sketch.intercept = !(flags & 64);
  if (more & 16) c.hash_bits = more & 32 ? 3 : 62;
  setup.single = flags & 128;
  return setup;
}

std::unique_ptr<Model> make(const Setup& setup) { return make_model(setup.config, setup.single); }

// Rows that own their numbers.
struct Rows {
  std::vector<double> values, labels, weights;
  std::vector<Key> keys;
  std::vector<int64_t> starts = {0};

  Batch batch(bool dense) const {
    Batch batch;
    batch.rows = labels.size();
    batch.values = values.data();
    if (dense) {
      batch.cols = batch.rows == 0 ? 0 : values.size() / batch.rows;
      batch.row_stride = static_cast<int64_t>(batch.cols);
      batch.col_stride = 1;
    } else {
      batch.index_type = Batch::Index::u64;
      batch.indices = keys.data();
      batch.indptr = starts.data();
      batch.stored = values.size();
    }
    return batch;
  }
};

Rows read_rows(Input& in, const Setup& setup, size_t count, bool dense) {
  Rows rows;
  const double largest = setup.single ? kLargestValue<float> : kLargestValue<double>;
  const size_t columns = 1 + in.below(6);
  for (size_t row = 0; row < count; ++row) {
    const size_t stored = dense ? columns : in.below(columns + 1);
    for (size_t i = 0; i < stored; ++i) {
      rows.values.push_back(in.number(largest));
      rows.keys.push_back(in.pick(kKeys));
    }
    rows.starts.push_back(static_cast<int64_t>(rows.values.size()));
    rows.labels.push_back(setup.config.loss->binary ? (in.byte() & 1 ? 1.0 : -1.0)
                                                    : in.number(1e150));
    rows.weights.push_back(std::abs(in.number(1e150)));
  }
  return rows;
}

bool same_state(const State& a, const State& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.type == y.second.type &&
           x.second.shape == y.second.shape && x.second.bytes == y.second.bytes;
  });
}

std::optional<State> saved(Model& model) {
  try {
    return model.save();
  } catch (const Diverged&) {
    return {};
  }
}

void check_predictions(const std::vector<double>& predictions, size_t count, double bound) {
  for (size_t i = 0; i < count; ++i)
    CHECK(std::isfinite(predictions[i]) && std::abs(predictions[i]) <= bound);
}

// A learner that has refused a row against one that never saw it. Lazy sketches may have caught up
// with features of the row, so their blocks may differ; predictions do not. But a projection onto
// the bound stays where the gradient of the row changes the scales, which is after it.
void check_unchanged(Model& model, const State& before, const Setup& setup, const Batch& batch) {
  const auto after = saved(model);
  CHECK(after && after->at("rounds").bytes == before.at("rounds").bytes);
  CHECK(after->at("features").bytes == before.at("features").bytes);
  if (setup.config.scaling == Scaling::gradient && std::isfinite(setup.config.bound)) return;
  const auto other = make(setup);
  other->restore(before);
  std::vector<double> found(batch.rows), wanted(batch.rows);
  try {
    other->predict(batch, wanted.data());
  } catch (const Diverged&) {
    return;
  }
  model.predict(batch, found.data());
  CHECK(std::memcmp(found.data(), wanted.data(), batch.rows * sizeof(double)) == 0);
}

void learn(Input& in, Model& model, const Setup& setup, bool forged) {
  const uint8_t flags = in.byte();
  const bool dense = flags & 1;
  const size_t count = flags & 2 ? 1 : 1 + in.below(7);
  const Rows rows = read_rows(in, setup, count, dense);
  const Batch batch = rows.batch(dense);
  const double* weights = flags & 12 ? nullptr : rows.weights.data();
  std::vector<double> predictions(count, 0.0);
  const auto before = count == 1 && !forged ? saved(model) : std::nullopt;
  try {
    model.learn(batch, rows.labels.data(), weights, predictions.data());
    if (!forged) check_predictions(predictions, count, setup.config.bound);
  } catch (const Diverged& error) {
    CHECK(error.row < count);
    if (before) check_unchanged(model, *before, setup, batch);
  } catch (const BadInput&) {
  }
}

void look(Model& model) {
  const Stats stats = model.stats();
  const size_t slots = model.features().size() + 1;
  CHECK(model.weights().size() == slots && model.scales().size() == slots);
  CHECK(model.limits().size() == slots && stats.features + 1 >= slots);
  CHECK(model.basis().rows() == model.spectrum().size());
  model.expert_shares();
  model.label_range();
}

void predict(Input& in, Model& model, const Setup& setup, bool forged) {
  const bool dense = in.byte() & 1;
  const Rows rows = read_rows(in, setup, 2, dense);
  std::vector<double> first(2), second(2);
  try {
    model.predict(rows.batch(dense), first.data());
    model.predict(rows.batch(dense), second.data());
    CHECK(std::memcmp(first.data(), second.data(), 2 * sizeof(double)) == 0);
    if (!forged) check_predictions(first, 2, setup.config.bound);
  } catch (const BadInput&) {
  } catch (const Diverged&) {
  }
}

// The same bits after saving and restoring; the restored learner goes on.
void save_and_restore(std::unique_ptr<Model>& model, const Setup& setup) {
  const auto state = saved(*model);
  if (!state) return;
  auto other = make(setup);
  other->restore(*state);
  const auto again = saved(*other);
  CHECK(again && same_state(*state, *again));
  model = std::move(other);
}

// What a file is checked for before its state is restored: names that are there.
bool has_known_names(const State& state) {
  const auto found = state.find("features");
  if (found == state.end() || found->second.type != Tensor::Type::u64) return false;
  const std::vector<uint8_t>& bytes = found->second.bytes;
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    Key key;
    std::memcpy(&key, bytes.data() + at, 8);
    if ((key & kNamed) && (key & ~kNamed) >= kNames) return false;
  }
  return true;
}

size_t number_bytes(Tensor::Type type) {
  if (type == Tensor::Type::u8) return 1;
  return type == Tensor::Type::f32 || type == Tensor::Type::u32 ? 4 : 8;
}

void change_tensor(Input& in, Tensor& tensor) {
  const size_t width = number_bytes(tensor.type);
  switch (in.below(8)) {
    default: {  // another number
      if (tensor.bytes.size() < width) return;
      const size_t at = (in.byte() | in.byte() << 8) % (tensor.bytes.size() / width) * width;
      if (tensor.type == Tensor::Type::f64) {
        const double value = in.number(1e300);
        std::memcpy(tensor.bytes.data() + at, &value, 8);
      } else if (tensor.type == Tensor::Type::f32) {
        const auto value = static_cast<float>(in.number(3e38));
        std::memcpy(tensor.bytes.data() + at, &value, 4);
      } else {
        constexpr uint64_t kCounts[] = {0,
                                        1,
                                        2,
                                        3,
                                        5,
                                        16,
                                        63,
                                        255,
                                        511,
                                        512,
                                        513,
                                        4095,
                                        4096,
                                        8192,
                                        uint64_t{1} << 31,
                                        uint64_t{1} << 32,
                                        uint64_t{1} << 62,
                                        ~uint64_t{0},
                                        kNamed,
                                        kNamed + 7};
        const uint64_t value = in.pick(kCounts);
        std::memcpy(tensor.bytes.data() + at, &value, width);
      }
      return;
    }
    case 5: {  // more or fewer rows
      if (tensor.shape.empty() || tensor.shape[0] == 0) return;
      const size_t row = tensor.bytes.size() / tensor.shape[0];
      tensor.shape[0] = in.below(2) ? tensor.shape[0] - 1 : tensor.shape[0] + 1 + in.below(600);
      tensor.bytes.resize(row * tensor.shape[0]);
      return;
    }
    case 6:  // another number of dimensions
      if (tensor.shape.empty())
        tensor.shape = {1};
      else if (in.below(2))
        tensor.shape.pop_back();
      else
        tensor.shape.push_back(1);
      return;
    case 7:  // another type
      tensor.type = static_cast<Tensor::Type>(in.below(6));
  }
}

void change_state(Input& in, State& state) {
  for (size_t times = 1 + in.below(3); times-- > 0;) {
    auto tensor = state.begin();
    std::advance(tensor, static_cast<ptrdiff_t>(in.below(state.size())));
    const uint8_t how = in.byte();
    if (how == 0)
      state.erase(tensor);
    else if (how == 1)  // that of another field
      tensor->second = state.begin()->second;
    else
      change_tensor(in, tensor->second);
  }
}

// Returns whether there is a learner that a changed state was restored to.
bool forge(Input& in, std::unique_ptr<Model>& model, const Setup& setup) {
  auto state = saved(*model);
  if (!state) return false;
  change_state(in, *state);
  if (!has_known_names(*state)) return false;
  auto other = make(setup);
  try {
    other->restore(*state);
  } catch (const std::invalid_argument&) {
    return false;
  }
  model = std::move(other);
  return true;
}

// What merging does to a learner: its knowledge, or one with other numbers, becomes another one.
void adopt(Input& in, std::unique_ptr<Model>& model, const Setup& setup) {
  State knowledge = model->knowledge();
  if (in.below(2)) change_state(in, knowledge);
  if (!has_known_names(knowledge)) return;
  auto other = make(setup);
  try {
    other->set_knowledge(knowledge);
  } catch (const std::invalid_argument&) {
    return;
  } catch (const Diverged&) {
    return;
  }
  model = std::move(other);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in(data, size);
  const Setup setup = read_setup(in);
  std::unique_ptr<Model> model = make(setup);
  bool forged = false;  // numbers of a stranger: memory safety is promised, not sense
  for (int actions = 0; actions < 12 && !in.empty(); ++actions) {
    switch (in.below(8)) {
      case 0:
      case 1:
      case 2:
        learn(in, *model, setup, forged);
        break;
      case 3:
        predict(in, *model, setup, forged);
        break;
      case 4:
        save_and_restore(model, setup);
        break;
      case 5:
        forged |= forge(in, model, setup);
        break;
      case 6:
        adopt(in, model, setup);
        forged = true;
        break;
      default:
        look(*model);
    }
  }
  look(*model);
  return 0;
}
