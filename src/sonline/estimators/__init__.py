"""Estimators for scikit-learn; import `SONClassifier` and `SONRegressor` from `sonline`."""
