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
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "forge.hpp"
#include "sonline/errors.hpp"
#include "sonline/hashing.hpp"
#include "sonline/model.hpp"

namespace {

using namespace sonline;

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

struct Setup {
  Config config;
  Task task;  // with the classes of the model at hand
  bool single = true;

  // Numbers, or classes that one output tells apart.
  bool one_output() const {
    return task.numbers || task.classes < 2 || (task.classes == 2 && !task.growing);
  }
};

constexpr double kAlphas[] = {1, 1e-300, 1e-12, 1e-9, 0.01, 100, 1e12, 1e300};

// As the default has them, or any; the first is for both uses.
void read_members(Input& in, Config& c) {
  constexpr double kMemories[] = {HUGE_VAL, 0, 1, 3, 100, 1e300};
  constexpr Use kUses[] = {Use::both, Use::next, Use::later};
  const uint8_t choice = in.byte();
  if (choice & 1) {
    c.members = {
        {1e-4}, {1e-2}, {1e-2, 100, Use::next}, {0.1, 0, Use::next}, {1e-2, 100, Use::later}};
    c.diagonal = {0.25};
    return;
  }
  c.members = {{in.pick(kAlphas), in.pick(kMemories)}};
  for (size_t more = choice >> 1 & 3; more-- > 0;)
    c.members.push_back({in.pick(kAlphas), in.pick(kMemories), in.pick(kUses)});
  for (size_t diagonals = choice >> 3 & 3; diagonals-- > 0;) c.diagonal.push_back(in.pick(kAlphas));
}

Task read_task(Input& in, const Config& c) {
  if (!c.loss->binary) return {};
  constexpr size_t kClasses[] = {2, 2, 2, 3, 5};
  constexpr size_t kFirstClasses[] = {0, 1, 2, 3};
  const bool growing = in.byte() & 1;
  return {false, growing ? in.pick(kFirstClasses) : in.pick(kClasses), growing};
}

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
  const uint8_t flags = in.byte(), more = in.byte();
  c.relative = flags & 2;
  if ((flags & 1) && !single_weights)
    read_members(in, c);
  else
    c.members = {{in.pick(kAlphas)}};
  constexpr double kBounds[] = {HUGE_VAL, HUGE_VAL, 1, 1e-300, 1e300};
  c.bound = in.pick(kBounds);
  c.clip = flags & 4;
  c.unit_free = (flags & 8) && !c.loss->binary && std::isinf(c.bound);
  c.explicit_step = (flags & 16) && !c.blended();
  c.hessian = c.loss->hessian && (flags & 32);
  constexpr size_t kEvery[] = {1, 1, 2, 7};
  c.sketch_every = c.blended() && (more & 8)           ? 0
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
  c.intercept = !(flags & 64);
  if (more & 16) c.hash_bits = more & 32 ? 3 : 62;
  const bool curves = c.diagonal.size() == 1 && c.sketch_name == "isotropic" && c.intercept &&
                      c.scaling == Scaling::automatic && c.hash_bits < 0;
  c.with_curves = {{1e-2}};
  if (curves) c.curves = more & 64 ? CurvesChoice::automatic : CurvesChoice::on;
  c.pairs = curves && more & 8;
  c.complete();
  setup.single = flags & 128;
  setup.task = read_task(in, c);
  return setup;
}

std::unique_ptr<Model> make(const Setup& setup) {
  return make_model(setup.config, setup.task, setup.single);
}

// Rows that own their numbers.
struct Rows {
  bool dense = false, weighted = false;
  std::vector<double> values, labels, weights;
  std::vector<Key> keys;
  std::vector<int64_t> starts = {0};

  size_t size() const { return labels.size(); }
  const double* row_weights() const { return weighted ? weights.data() : nullptr; }
  Batch batch() const {
    Batch batch;
    batch.rows = size();
    batch.values = values.data();
    batch.checked = true;
    batch.table = dense;
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

// A few rows, or these again and again with other values, labels and, if `spread`, features: a
// stream that outlasts the first rows of a model.
Rows read_rows(Input& in, const Setup& setup, size_t count) {
  Rows rows;
  const uint8_t flags = in.byte();
  rows.dense = flags & 1;
  rows.weighted = !(flags & 12);
  constexpr size_t kRepeats[] = {1, 1, 1, 1, 1, 1, 6, 16};
  const size_t repeats = count == 1 ? 1 : kRepeats[flags >> 4 & 7];
  const bool spread = flags & 128;
  const double largest = setup.single ? kLargestValue<float> : kLargestValue<double>;
  const size_t columns = 1 + in.below(6), classes = std::max<size_t>(setup.task.classes, 1);
  for (size_t row = 0; row < count; ++row) {
    const size_t stored = rows.dense ? columns : in.below(columns + 1);
    for (size_t i = 0; i < stored; ++i) {
      rows.values.push_back(in.number(largest));
      rows.keys.push_back(in.pick(kKeys));
    }
    rows.starts.push_back(static_cast<int64_t>(rows.values.size()));
    rows.labels.push_back(setup.task.numbers ? in.number(1e150)
                                             : static_cast<double>(in.below(classes)));
    rows.weights.push_back(std::abs(in.number(1e150)));
  }
  const size_t nonzeros = rows.values.size();
  for (size_t row = count; row < count * repeats; ++row) {
    const size_t of = row % count;
    const uint64_t bits = mix_bits(row);
    for (auto at = static_cast<size_t>(rows.starts[of]);
         at < static_cast<size_t>(rows.starts[of + 1]); ++at) {
      const double factor = 1 - static_cast<double>(bits >> (at % 8) & 255) / 2048;
      rows.values.push_back(rows.values[at] * factor);
      const Key key = rows.keys[at];
      rows.keys.push_back(spread && key < 8192 ? key + 64 * (row / count) : key);
    }
    rows.starts.push_back(static_cast<int64_t>(rows.values.size()));
    rows.labels.push_back(setup.task.numbers
                              ? rows.labels[of] * (1 - static_cast<double>(bits & 255) / 2048)
                              : static_cast<double>((bits >> 32) % classes));
    rows.weights.push_back(rows.weights[of]);
  }
  CHECK(rows.values.size() == nonzeros * repeats);
  return rows;
}

bool same_state(const State& a, const State& b) {
  const auto same = [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.type == y.second.type &&
           x.second.shape == y.second.shape && x.second.bytes == y.second.bytes;
  };
  const auto [at, there] = std::mismatch(a.begin(), a.end(), b.begin(), b.end(), same);
  if (at != a.end()) std::fprintf(stderr, "differs: %s\n", at->first.c_str());
  return at == a.end() && there == b.end();
}

std::optional<State> saved(Model& model) {
  try {
    return model.save();
  } catch (const Diverged&) {
    return {};
  }
}

// Of all lines, one after another.
std::vector<double> room_for(const Model& model, const Rows& rows) {
  return std::vector<double>(std::max<size_t>(model.lines(), 1) * rows.size());
}

void check_predictions(const std::vector<double>& predictions, double bound) {
  for (const double z : predictions) CHECK(std::isfinite(z) && std::abs(z) <= bound);
}

// A learner that has refused a row against one that never saw it. Lazy sketches may have caught up
// with features of the row, so their blocks may differ; predictions do not. But a projection onto
// the bound stays where the gradient of the row changes the scales, which is after it.
void check_unchanged(Model& model, const State& before, const Setup& setup, const Rows& rows) {
  const auto after = saved(model);
  CHECK(after);
  const auto kept = [](const std::string& name) {
    return !name.starts_with("0.") || name.starts_with("0.l") || name.starts_with("0.n");
  };
  for (const auto& [name, tensor] : before)
    if (kept(name)) CHECK(after->at(name).bytes == tensor.bytes);
  if (setup.config.scaling == Scaling::gradient && std::isfinite(setup.config.bound)) return;
  const auto other = make(setup);
  other->restore(before);
  std::vector<double> found = room_for(model, rows), wanted = found;
  try {
    other->predict(rows.batch(), {wanted.data(), rows.size()}, 1);
  } catch (const Diverged&) {
    return;
  }
  model.predict(rows.batch(), {found.data(), rows.size()}, 1);
  CHECK(std::memcmp(found.data(), wanted.data(), found.size() * sizeof(double)) == 0);
}

void learn(Input& in, Model& model, const Setup& setup, bool forged) {
  const size_t choice = in.below(16), count = choice < 8 ? 1 : choice - 7;
  if (!setup.task.numbers && setup.task.classes == 0) return;
  const Rows rows = read_rows(in, setup, count);
  std::vector<double> predictions = room_for(model, rows);
  const auto before =
      rows.size() == 1 && setup.one_output() && !forged ? saved(model) : std::nullopt;
  try {
    model.learn(rows.batch(), rows.labels.data(), rows.row_weights(),
                {predictions.data(), rows.size()}, 1 + in.below(2));
    if (!forged) check_predictions(predictions, setup.config.bound);
  } catch (const Diverged& error) {
    CHECK(error.rows_learned <= error.rows_done && error.rows_done <= rows.size());
    if (setup.one_output()) CHECK(error.rows_learned < rows.size());
    if (before) check_unchanged(model, *before, setup, rows);
  }
}

void look(Model& model) {
  const Stats stats = model.stats();
  const size_t slots = model.features().size() + 1;
  CHECK(model.scales().size() == slots && model.centres().size() == slots);
  CHECK(model.limits().size() == slots && stats.features + 1 >= slots);
  for (size_t line = 0; line < model.lines(); ++line) {
    CHECK(model.weights(line).size() == slots);
    CHECK(model.basis(line).rows() == model.spectrum(line).size());
    CHECK(model.shares(line, false).size() == model.shares(line, true).size());
  }
  model.label_range();
}

void predict(Input& in, Model& model, const Setup& setup, bool forged) {
  const Rows rows = read_rows(in, setup, 2);
  std::vector<double> first = room_for(model, rows), second = first;
  try {
    model.predict(rows.batch(), {first.data(), rows.size()}, 1);
    model.predict(rows.batch(), {second.data(), rows.size()}, 1);
    CHECK(std::memcmp(first.data(), second.data(), first.size() * sizeof(double)) == 0);
    if (!forged) check_predictions(first, setup.config.bound);
  } catch (const Diverged&) {
  }
}

// The same bits after saving and restoring, also after both have learned the same rows.
void save_and_restore(Input& in, std::unique_ptr<Model>& model, const Setup& setup) {
  const auto state = saved(*model);
  if (!state) return;
  auto other = make(setup);
  other->restore(*state);
  const auto again = saved(*other);
  CHECK(again && same_state(*state, *again));
  if (setup.task.numbers || setup.task.classes > 0) {
    const Rows rows = read_rows(in, setup, 3);
    std::vector<double> of_model = room_for(*model, rows), of_other = of_model;
    const auto learns = [&](Model& learner, std::vector<double>& predictions) {
      try {
        learner.learn(rows.batch(), rows.labels.data(), rows.row_weights(),
                      {predictions.data(), rows.size()}, 1);
      } catch (const Diverged&) {
        return false;
      }
      return true;
    };
    const bool learned = learns(*model, of_model);
    CHECK(learns(*other, of_other) == learned);
    CHECK(std::memcmp(of_model.data(), of_other.data(), of_model.size() * sizeof(double)) == 0);
    const auto one = saved(*model), two = saved(*other);
    CHECK(one.has_value() == two.has_value() && (!one || same_state(*one, *two)));
  }
  model = std::move(other);
}

void grow(Input& in, Model& model, Setup& setup) {
  if (!setup.task.growing) return;
  if (in.below(4) == 0) {
    model.stop_growing();
    setup.task.growing = false;
  } else if (setup.task.classes < 6) {
    try {
      model.add_class();
      ++setup.task.classes;
    } catch (const Diverged&) {
      CHECK(!saved(model));
    }
  }
  CHECK(model.classes() == setup.task.classes);
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
  Setup setup = read_setup(in);
  std::unique_ptr<Model> model = make(setup);
  bool forged = false;  // numbers of a stranger: memory safety is promised, not sense
  for (int actions = 0; actions < 12 && !in.empty(); ++actions) {
    switch (in.below(9)) {
      case 0:
      case 1:
      case 2:
        learn(in, *model, setup, forged);
        break;
      case 3:
        predict(in, *model, setup, forged);
        break;
      case 4:
        save_and_restore(in, model, setup);
        break;
      case 5:
        forged |= forge(in, model, setup);
        break;
      case 6:
        adopt(in, model, setup);
        forged = true;
        break;
      case 7:
        grow(in, *model, setup);
        break;
      default:
        look(*model);
    }
  }
  look(*model);
  return 0;
}
