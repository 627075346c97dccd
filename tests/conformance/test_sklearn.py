"""scikit-learn's own checks of what an estimator has to be."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from sonline import SONClassifier, SONRegressor

ONLINE = (
    "an online learner takes a row of weight 2 as one larger step, not as two steps: the second of "
    "two equal rows meets weights that the first has changed"
)
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": ONLINE,
    "check_sample_weight_equivalence_on_sparse_data": ONLINE,
}


@parametrize_with_checks(
    [
        SONClassifier(),
        SONRegressor(),
        SONClassifier(discover_classes=True),
    ],
    expected_failed_checks=lambda _: EXPECTED,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
