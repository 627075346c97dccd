// The learner of one class among several: one of its own, an output of a group, or both as long as
// it is not known which of them is to stay (group.hpp).
#pragma once

#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sonline/group.hpp"
#include "sonline/model.hpp"

namespace sonline {

class ClassModel final : public Model {
 public:
  // At least one of the two is there. The output belongs to this model.
  ClassModel(std::unique_ptr<Model> own, std::shared_ptr<Group> group, size_t output)
      : own_(std::move(own)), group_(std::move(group)), output_(output) {}
  ~ClassModel() override { leave_group(); }

  Model* own() const { return own_.get(); }
  const std::shared_ptr<Group>& group() const { return group_; }
  size_t output() const { return output_; }

  void drop_own() { own_.reset(); }
  void leave_group() {
    if (group_) group_->release(output_);
    group_.reset();
  }
  void join(std::unique_ptr<Model> own, std::shared_ptr<Group> group, size_t output) {
    leave_group();
    own_ = std::move(own);
    group_ = std::move(group);
    output_ = output;
  }

  // classes.hpp lets groups learn and predict.
  void learn(const Batch& batch, const double* labels, const double* weights, double* predictions,
             const PreparedBatch* ready, PreparedBatch* made) override {
    if (!own_) throw std::logic_error("an output of a group does not learn alone");
    own_->learn(batch, labels, weights, predictions, ready, made);
  }
  void add_features(const Batch& batch, size_t row) override {
    if (own_) own_->add_features(batch, row);
  }
  void predict(const Batch& batch, double* predictions) override {
    if (own_)
      own_->predict(batch, predictions);
    else
      for (size_t row = 0; row < batch.rows; ++row)
        predictions[row] = group_->predict(batch, row)[output_];
  }

  std::unique_ptr<PreparedBatch> new_prepared() const override { return own_->new_prepared(); }
  uint64_t alike() const override { return own_ ? own_->alike() : 0; }
  void set_alike(uint64_t number) override {
    if (own_) own_->set_alike(number);
  }
  bool is_like(const Model& other, size_t most) const override {
    const auto* same = dynamic_cast<const ClassModel*>(&other);
    return own_ && same && same->own_ && own_->is_like(*same->own_, most);
  }

  // The memory of a group and the upkeep of its sketch count once, for the first output.
  Stats stats() const override {
    if (!group_) return own_->stats();
    const Stats of_group = group_->stats();
    Stats stats = own_ ? own_->stats() : of_group;
    if (!own_) {
      stats.bytes = 0;
      if (output_ != 0) stats.upkeep = Upkeep();
    }
    if (output_ == 0) stats.bytes += of_group.bytes;
    return stats;
  }
  std::vector<Key> features() const override {
    if (own_) return own_->features();
    std::vector<Key> keys = group_->keys();
    keys.erase(keys.begin());
    return keys;
  }
  std::vector<double> weights() const override {
    return own_ ? own_->weights() : group_->weights(output_);
  }
  std::vector<double> scales() const override { return own_ ? own_->scales() : group_->scales(); }
  std::vector<double> limits() const override { return own_ ? own_->limits() : group_->limits(); }
  std::vector<double> centres() const override {
    return own_ ? own_->centres() : group_->centres();
  }
  std::vector<double> spectrum() const override {
    return own_ ? own_->spectrum() : group_->spectrum(output_);
  }
  Matrix basis() const override { return own_ ? own_->basis() : group_->basis(); }
  std::vector<double> expert_shares() const override {
    return own_ ? own_->expert_shares() : group_->expert_shares(output_);
  }
  std::pair<double, double> label_range() const override {
    if (own_) return own_->label_range();
    return {-1.0, 1.0};
  }

  // Of its own learner only, or of the output as if it were one.
  State save() override { return own_ ? own_->save() : State(); }
  void restore(const State& state) override { own_->restore(state); }
  State knowledge() override {
    if (own_) return own_->knowledge();
    State state = std::move(group_->knowledge({output_})[0]);
    state.merge(group_->knowledge());
    return state;
  }
  void set_knowledge(const State& knowledge) override { own_->set_knowledge(knowledge); }

 private:
  std::unique_ptr<Model> own_;
  std::shared_ptr<Group> group_;
  size_t output_;
};

}  // namespace sonline
