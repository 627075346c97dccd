// What a model does beside learning and predicting rows: the end of the warm-up, classes, weights
// and curves, files, and what merging sees of it.
#pragma once

#include "sonline/model_of.hpp"

namespace sonline {

template <class T, class S>
void ModelOf<T, S>::add_class() {
  if (!task_.growing) throw std::logic_error("this model has all its classes");
  const auto added = static_cast<int64_t>(task_.classes);
  std::vector<size_t> from = all_outputs();
  const size_t never = from.back();
  if (added == 2) from = {0, 0, never, never};
  if (added != 2 && added != 0) from.push_back(never);
  Outputs outputs(from.size());
  for (size_t i = 0; i < from.size(); ++i)  // copies first: if one fails, nothing has changed
    if (position(from, i) < i) outputs[i] = copy(*outputs_[from[i]]);
  ++task_.classes;
  if (added == 0) return;
  for (size_t i = 0; i < from.size(); ++i)
    if (!outputs[i]) outputs[i] = std::move(outputs_[from[i]]);
  outputs_ = std::move(outputs);
  if (added == 2) outputs_[0]->mirror(0);
  outputs_[outputs_.size() - 2]->set_target(added);
  arrange(from);
}

template <class T, class S>
void ModelOf<T, S>::stop_growing() {
  if (!std::exchange(task_.growing, false) || classes() < 2) return;
  outputs_.pop_back();
  arrange(all_outputs());
}

template <class T, class S>
Stats ModelOf<T, S>::stats() const {
  Stats stats{
      inputs_.seen().count, {}, inputs_.features(), bytes(), outputs_[0]->alpha(inputs_.seen())};
  for (const auto& output : outputs_)
    if (output->has_sketch()) stats.upkeep.add(output->round().sketch().upkeep());
  return stats;
}

template <class T, class S>
std::vector<double> ModelOf<T, S>::weights(size_t line) {
  const size_t k = output_of(line);
  std::vector<double> weights = outputs_[k]->weights(
      inputs_, curves_, diagonal_.later_weights(k, inputs_.slots(), next_row()));
  if (mirrored_line())
    for (double& weight : weights) weight = -weight;
  return weights;
}

template <class T, class S>
std::vector<double> ModelOf<T, S>::spectrum(size_t line) const {
  const auto& output = *outputs_[output_of(line)];
  if (!output.has_sketch()) return {};
  Vector values = output.round().sketch().eigenvalues();
  for (double& value : values) value *= output.round().counted(inputs_.seen().clock);
  return values;
}

template <class T, class S>
Matrix ModelOf<T, S>::basis(size_t line) {
  const auto& output = *outputs_[output_of(line)];
  if (!output.has_sketch()) return Matrix(0, inputs_.slots());
  const S& sketch = output.round().sketch();
  const Vector values = sketch.eigenvalues();
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t i, size_t j) { return values[i] > values[j]; });
  Matrix V(sketch.rank(), inputs_.slots());
  Vector w(config_.members.size()), v(sketch.rank());
  for (Slot slot = 0; slot < inputs_.slots(); ++slot) {
    output.round().read(slot, w.data(), v.data());
    for (size_t i = 0; i < V.rows(); ++i) V(i, slot) = v[order[i]];
  }
  return V;
}

template <class T, class S>
std::vector<Curve> ModelOf<T, S>::curves(size_t line) {
  std::vector<Curve> curves;
  if (!curves_.on()) return curves;
  const Vector weights = outputs_[output_of(line)]->hat_weights(curves_);
  const double sign = mirrored_line() ? -1 : 1;
  const Vector centres = inputs_.centres();
  for (Slot slot = 0; slot < inputs_.slots(); ++slot) {
    Curves::Shape shape = curves_.shape(slot);
    if (shape.knots.empty()) continue;
    Curve curve{slot, shape.knots, Vector(shape.knots.size()), shape.rows};
    for (size_t i = 0; i < shape.knots.size(); ++i) {
      curve.knots[i] += centres[slot];
      for (const auto& [hat, value] : shape.hats[i]) curve.values[i] += sign * weights[hat] * value;
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

template <class T, class S>
std::vector<PairMap> ModelOf<T, S>::pairs(size_t line) {
  std::vector<PairMap> pairs;
  if (!curves_.on() || !curves_.pairs().on()) return pairs;
  const Vector weights = outputs_[output_of(line)]->hat_weights(curves_);
  const double sign = mirrored_line() ? -1 : 1;
  const Vector centres = inputs_.centres();
  const auto sides = [&](Slot slot) {
    Pairs::Sides sides = curves_.pairs().sides(slot);
    for (double& point : sides.points) point += centres[slot];
    return sides;
  };
  for (const Pairs::Map& map : curves_.pairs().maps()) {
    PairMap pair{map.a, map.b, sides(map.a), sides(map.b), Vector(map.rows.size()), map.rows};
    for (size_t i = 0; i < map.rows.size(); ++i) pair.values[i] = sign * weights[map.first + i];
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

template <class T, class S>
std::vector<double> ModelOf<T, S>::limits_of_scores(double error, bool later) const {
  std::vector<double> limits;
  for (size_t line = 0; line < lines(); ++line) {
    const Output<T, S>& output = *outputs_[output_of(line)];
    if (classes() == 2) limits.push_back(output.limit(false, later, error));
    limits.push_back(output.limit(!mirrored_line(), later, error));
  }
  return limits;
}

template <class T, class S>
State ModelOf<T, S>::save() {
  StateWriter archive;
  state(archive);
  for (const auto& [name, tensor] : archive.state)
    if (!tensor.finite())
      throw Diverged("the learner cannot be saved: '" + name +
                     "' holds numbers that are not finite; go on from a saved model");
  return std::move(archive.state);
}

template <class T, class S>
State ModelOf<T, S>::knowledge() {
  StateWriter archive;
  inputs_.write_knowledge(archive);
  archive.scalar("curves", curves_.on());
  if (curves_.on()) curves_.state(archive, inputs_.slots());
  archive.array("classes.seen", seen_);
  archive.scalar("wide", wide_);
  const size_t slots = inputs_.slots();
  archive.array("diagonal.squares", diagonal_.squares(slots, inputs_.seen().clock));
  for (size_t k = 0; k < outputs_.size(); ++k)
    archive.within(std::to_string(k) + ".", [&] {
      outputs_[k]->write_knowledge(archive, slots, curves_.slots(), inputs_.seen().clock,
                                   diagonal_.weights(k, slots),
                                   diagonal_.later_weights(k, slots, next_row()));
    });
  return std::move(archive.state);
}

template <class T, class S>
void ModelOf<T, S>::set_knowledge(const State& known) {
  StateReader archive(known);
  bool curved = false;
  archive.scalar("curves", curved);
  *this = ModelOf(with_curves(config_, curved), task_);
  inputs_.read_knowledge(archive);
  if (curved) curves_.state(archive, inputs_.slots());
  read_classes_seen(archive);
  arrange(all_outputs());
  archive.scalar("wide", wide_);
  const size_t slots = inputs_.slots();
  if (!config_.diagonal.empty()) {
    Vector squares(slots);
    archive.array("diagonal.squares", squares);
    diagonal_.set_squares(squares);
  }
  for (size_t k = 0; k < outputs_.size(); ++k)
    archive.within(std::to_string(k) + ".", [&] {
      outputs_[k]->read_knowledge(archive, slots, curves_.slots());
      if (config_.diagonal.empty()) return;
      Matrix weights(config_.diagonal.size(), slots);
      archive.matrix("diagonal", weights);
      diagonal_.set(k, weights);
    });
  warm_up_.close();
}

template <class T, class S>
void ModelOf<T, S>::arrange(const std::vector<size_t>& from) {
  diagonal_ = diagonal_.arranged(from, inputs_.slots(), holds());
  for (auto& output : outputs_) {
    output->hold(holds());
    if (seen_.size() > 2) output->forget_errors_of_others();
  }
  labels_.resize(outputs_.size());
}

template <class T, class S>
std::unique_ptr<Output<T, S>> ModelOf<T, S>::copy(Output<T, S>& output) const {
  StateWriter writer;
  output.state(writer, inputs_.slots(), curves_.slots());
  auto twin = std::make_unique<Output<T, S>>(config_, output.target(), false);
  StateReader reader(writer.state);
  try {
    twin->state(reader, inputs_.slots(), curves_.slots());
  } catch (const std::invalid_argument& error) {
    throw Diverged(std::string("no class can be added: ") + error.what() +
                   "; go on from a saved model");
  }
  return twin;
}

template <class T, class S>
void ModelOf<T, S>::read_classes_seen(StateReader& archive) {
  seen_ = archive.any_array<int64_t>("classes.seen");
  for (size_t i = 0; i < seen_.size(); ++i)
    if (seen_[i] < 0 || (!task_.numbers && seen_[i] >= static_cast<int64_t>(classes())) ||
        (i > 0 && seen_[i] <= seen_[i - 1]))
      StateReader::fail("classes.seen", "does not fit the classes");
}

template <class T, class S>
template <class Archive>
void ModelOf<T, S>::state(Archive& archive) {
  bool curved = curves_.on();
  if constexpr (Archive::reading) {
    curved = archive.has("curves");
    *this = ModelOf(with_curves(config_, curved), task_);
  }
  if (curved) archive.scalar("curves", curved);
  inputs_.state(archive);
  if (curved) curves_.state(archive, inputs_.slots());
  archive.scalar("wide", wide_);
  const size_t slots = inputs_.slots();
  if constexpr (Archive::reading) {
    read_classes_seen(archive);
    arrange(all_outputs());
  } else {
    archive.array("classes.seen", seen_);
  }
  size_t outputs = outputs_.size();
  archive.scalar("outputs", outputs);
  if (outputs != outputs_.size()) StateReader::fail("outputs", "does not fit the classes");
  warm_up_.state(archive, inputs_.seen().count, inputs_.index());
  if constexpr (Archive::reading)
    for (const double label : warm_up_.labels())
      if (!task_.numbers && !(label >= 0 && label < static_cast<double>(classes())))
        archive.fail("warm_up.labels", "has an unknown class");
  if (!config_.diagonal.empty()) diagonal_.state(archive, slots);
  for (size_t k = 0; k < outputs_.size(); ++k)
    archive.within(std::to_string(k) + ".",
                   [&] { outputs_[k]->state(archive, slots, curves_.slots()); });
}

template <class T, class S>
void ModelOf<T, S>::settle() {
  const Choices choices = warm_up_.choices(inputs_.index());
  Curves curves = chosen_curves(choices);
  ModelOf settled(with_curves(config_, curves.on()), task_);
  settled.curves_ = std::move(curves);
  settled.inputs_.start(choices.unit, choices.centres);
  for (size_t k = 0; k < outputs_.size(); ++k)
    if (outputs_[k]->sign() < 0) settled.outputs_[k]->mirror(outputs_[k]->target());
  settled.wide_ = choices.wide;
  const Batch batch = warm_up_.batch();
  Vector predictions(batch.rows * lines());
  settled.warm_up_.close();
  try {
    settled.learn(batch, warm_up_.labels().data(), warm_up_.weights().data(),
                  {predictions.data(), batch.rows}, 1);
  } catch (const Diverged&) {  // the rows stay as they were learned
    warm_up_.close();
    return;
  }
  for (size_t k = 0; k < outputs_.size(); ++k) settled.outputs_[k]->keep_alphas_of(*outputs_[k]);
  *this = std::move(settled);
}

template <class T, class S>
Curves ModelOf<T, S>::chosen_curves(const Choices& choices) const {
  Curves curves;
  if (config_.curves == CurvesChoice::off) return curves;
  if (config_.curves == CurvesChoice::automatic &&
      (!warm_up_.table() || choices.wide || choices.features > Curves::kColumns))
    return curves;
  Inputs<T> inputs(config_);
  inputs.start(choices.unit, choices.centres);
  const Batch batch = warm_up_.batch();
  InputRow<T> row;
  for (size_t i = 0; i < batch.rows; ++i) {
    inputs.template resolve<true>(batch, i, row);
    curves.look_at(row);
  }
  return curves.start(1, batch.rows, config_.pairs) ? curves : Curves();
}

}  // namespace sonline
