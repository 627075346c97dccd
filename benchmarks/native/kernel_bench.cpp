// Times the kernel alone, without Python: kernel_bench SKETCH M NNZ FEATURES ROWS [KIND] [PASSES]
// [STEP] [LOSS] prints nanoseconds of processor time per non-zero (best of the passes). KIND of
// rows:
//   even   every feature is equally frequent
//   zipf   a few features are in nearly every row, most in hardly any: indices are exp(u ln d),
//          scattered by a multiplier
//   dense  an array with all features
// SKETCH "auto" is the default without curves and "curves" the default with them, with their
// scales; others have one alpha and unscaled rows. LOSS is logistic or squared. The same program,
// under callgrind, gives the instruction counts that benchmarks/instructions.py compares.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "sonline/model.hpp"

namespace {

// A small generator of our own: the same stream on every machine.
struct Random {
  uint64_t state = 0x853C49E6748FEA9Bu;
  uint64_t next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
  }
  double uniform() { return static_cast<double>(next()) / 2147483648.0; }
};

// Processor time, so that a busy machine disturbs little.
double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The features of a row: ascending, no duplicates.
void draw_features(Random& random, bool zipf, size_t features, size_t nnz, int32_t* row) {
  if (!zipf) {
    const size_t span = features / nnz;  // one feature of every span
    for (size_t i = 0; i < nnz; ++i) row[i] = static_cast<int32_t>(i * span + random.next() % span);
    return;
  }
  constexpr uint64_t kMultiplier = 2654435761;  // prime: no two indices meet
  const double range = std::log(static_cast<double>(features));
  for (size_t drawn = 0; drawn < nnz;) {
    const auto index = static_cast<uint64_t>(std::exp(random.uniform() * range)) - 1;
    const auto feature = static_cast<int32_t>(index * kMultiplier % features);
    if (std::find(row, row + drawn, feature) == row + drawn) row[drawn++] = feature;
  }
  std::sort(row, row + nnz);
}

}  // namespace

// A name that callgrind can be told: it counts within this function only.
extern "C" [[gnu::noinline]] void measured_learn(sonline::Model& model, const sonline::Batch& batch,
                                                 const double* labels, double* predictions) {
  model.learn(batch, labels, nullptr, {predictions, batch.rows}, 1);
}

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--compiler") {
    std::puts(__VERSION__);
    return 0;
  }
  if (argc < 6) {
    std::fprintf(stderr, "usage: %s SKETCH M NNZ FEATURES ROWS [KIND] [PASSES] [STEP] [LOSS]\n",
                 argv[0]);
    return 2;
  }
  const std::string sketch = argv[1];
  const size_t m = std::strtoul(argv[2], nullptr, 10), nnz = std::strtoul(argv[3], nullptr, 10);
  const size_t features = std::strtoul(argv[4], nullptr, 10);
  const size_t rows = std::strtoul(argv[5], nullptr, 10);
  const std::string kind = argc > 6 ? argv[6] : "even";
  const int passes = argc > 7 ? std::atoi(argv[7]) : 3;
  const std::string loss = argc > 9 ? argv[9] : "logistic";
  const bool numbers = loss == "squared", is_default = sketch == "auto" || sketch == "curves";

  Random random;
  std::vector<float> values(rows * nnz);
  std::vector<int32_t> indices(rows * nnz), indptr(rows + 1);
  std::vector<double> labels(rows), predictions(rows), truth(features);
  for (double& w : truth) w = random.uniform() - 0.5;
  for (size_t row = 0; row < rows; ++row) {
    double margin = 0;
    draw_features(random, kind == "zipf", features, nnz, &indices[row * nnz]);
    for (size_t i = row * nnz; i < (row + 1) * nnz; ++i) {
      values[i] = static_cast<float>(random.uniform() - 0.5);
      margin += truth[static_cast<size_t>(indices[i])] * values[i];
    }
    labels[row] = numbers ? margin + (random.uniform() - 0.5) : margin > 0;
    indptr[row + 1] = static_cast<int32_t>((row + 1) * nnz);
  }

  sonline::Config config;
  config.loss = sonline::make_loss(loss);
  config.sketch_name = sketch;
  config.sketch.size = m;
  config.sketch.scale_free = true;
  config.relative = kind != "zipf";
  config.root = sketch == "adagrad";
  config.members = {{kind == "zipf" ? 1.0 : 0.1}};
  if (is_default) {  // as in parameters.py
    config.sketch_name = "isotropic";
    config.unit_free = numbers;
    config.with_curves = {{1e-2}};
    if (sketch == "curves") config.curves = sonline::CurvesChoice::on;
    config.relative = true;
    config.members = {{1e-4},
                      {1e-2},
                      {1e-2, 100, sonline::Use::next},
                      {0.1, 0, sonline::Use::next},
                      {1e-2, 100, sonline::Use::later}};
    config.diagonal = {0.25};
    config.sketch_every = 0;
    config.scaling = sonline::Scaling::automatic;
  }
  config.hessian = true;
  config.explicit_step = argc > 8 && std::string(argv[8]) == "explicit";
  config.complete();
  sonline::Batch batch;
  batch.value_type = sonline::Batch::Number::f32;
  batch.index_type = sonline::Batch::Index::i32;
  batch.rows = rows;
  batch.values = values.data();
  if (kind == "dense") {
    batch.cols = features;
    batch.row_stride = static_cast<int64_t>(features);
    batch.col_stride = 1;
  } else {
    batch.indices = indices.data();
    batch.indptr = indptr.data();
    batch.stored = values.size();
  }
  batch.checked = true;

  const sonline::Task task = numbers ? sonline::Task{} : sonline::Task{false, 2};
  double best = 1e300;
  int64_t sweeps = 0;
  for (int pass = 0; pass < passes; ++pass) {
    const auto model = sonline::make_model(config, task, true);
    const double start = cpu_seconds();
    measured_learn(*model, batch, labels.data(), predictions.data());
    best = std::min(best, cpu_seconds() - start);
    sweeps = model->stats().upkeep.sweeps;
  }
  size_t errors = 0;
  for (size_t row = 0; row < rows; ++row) errors += (predictions[row] > 0) != (labels[row] > 0);
  std::printf("%s m=%zu nnz=%zu d=%zu %s: %.2f ns/nnz, %.0f ns/row, %lld sweeps, error %.4f\n",
              sketch.c_str(), m, nnz, features, kind.c_str(),
              best * 1e9 / static_cast<double>(rows * nnz), best * 1e9 / static_cast<double>(rows),
              static_cast<long long>(sweeps),
              static_cast<double>(errors) / static_cast<double>(rows));
}
