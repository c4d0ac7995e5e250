"""Models of scikit-learn, as skl2onnx writes them: they come in, go through the passes and out again, and give scikit-learn's
own predictions on rows that they were not fitted to, in onnxruntime and here."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import skl2onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn import (
    cluster,
    compose,
    decomposition,
    ensemble,
    gaussian_process,
    impute,
    linear_model,
    mixture,
    naive_bayes,
    neighbors,
    neural_network,
    preprocessing,
    svm,
    tree,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.pipeline import make_pipeline

import isthmus
from isthmus.errors import UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer", "ignore:The `probability` parameter")

DRAW = np.random.default_rng(0)
CENTRES = DRAW.standard_normal((3, 5)) * 2
CLASSES = np.arange(60) % 3
ROWS = (CENTRES[CLASSES] + DRAW.standard_normal((60, 5))).astype(np.float32)
FRESH = (CENTRES[np.arange(7) % 3] + DRAW.standard_normal((7, 5))).astype(np.float32)
HOLES = np.where(DRAW.random(ROWS.shape) < 0.2, np.nan, ROWS).astype(np.float32)
NAMES = np.array(["ash", "elm", "oak"])[CLASSES]
WORDS = DRAW.choice(np.array(["red", "green", "blue"], object), (60, 2))
TEXTS = np.array([" ".join(row) for row in DRAW.choice(["a", "red", "fox", "runs", "blue", "sky", "dogs"], (60, 5))], object)
TARGET = ROWS @ DRAW.standard_normal(5) + np.sin(ROWS[:, 0])

CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "logistic": linear_model.LogisticRegression,
    "linear_svc": svm.LinearSVC,
    "tree": lambda: tree.DecisionTreeClassifier(max_depth=4),
    "forest": lambda: ensemble.RandomForestClassifier(5, max_depth=4, random_state=0),
    "boosting": lambda: ensemble.GradientBoostingClassifier(n_estimators=4, random_state=0),
    "ada": lambda: ensemble.AdaBoostClassifier(n_estimators=3, random_state=0),
    "bagging": lambda: ensemble.BaggingClassifier(n_estimators=3, random_state=0),
    "stacking": lambda: ensemble.StackingClassifier([("a", linear_model.RidgeClassifier()), ("b", naive_bayes.GaussianNB())]),
    "mlp": lambda: neural_network.MLPClassifier((6,), max_iter=20, random_state=0),
    "bayes": naive_bayes.GaussianNB,
    "neighbors": lambda: neighbors.KNeighborsClassifier(3),
    "scaled": lambda: make_pipeline(preprocessing.StandardScaler(), decomposition.PCA(3), linear_model.LogisticRegression()),
    "columns": lambda: make_pipeline(
        compose.ColumnTransformer([
            ("filled", make_pipeline(impute.SimpleImputer(), preprocessing.MinMaxScaler()), [0, 1]),
            ("normal", preprocessing.Normalizer(), [2, 3, 4]),
        ]),
        ensemble.RandomForestClassifier(3, max_depth=3, random_state=0),
    ),
    "selected": lambda: make_pipeline(SelectKBest(k=3), linear_model.LogisticRegression()),
}  # fmt: skip
REGRESSORS: dict[str, Callable[[], Any]] = {
    "linear": linear_model.LinearRegression,
    "svr": svm.SVR,
    "forest": lambda: ensemble.RandomForestRegressor(5, max_depth=4, random_state=0),
    "boosting": lambda: ensemble.GradientBoostingRegressor(n_estimators=4, random_state=0),
    "mlp": lambda: neural_network.MLPRegressor(hidden_layer_sizes=(6,), max_iter=20, random_state=0),
    "neighbors": lambda: neighbors.KNeighborsRegressor(3),
    "process": gaussian_process.GaussianProcessRegressor,
}
TRANSFORMERS: dict[str, Callable[[], Any]] = {
    "standard": preprocessing.StandardScaler,
    "min_max": lambda: preprocessing.MinMaxScaler(clip=True),
    "max_abs": preprocessing.MaxAbsScaler,
    "robust": preprocessing.RobustScaler,
    "normalizer_l1": lambda: preprocessing.Normalizer("l1"),
    "binarizer": lambda: preprocessing.Binarizer(threshold=0.2),
    "polynomials": preprocessing.PolynomialFeatures,
    "power": preprocessing.PowerTransformer,
    "quantiles": lambda: preprocessing.QuantileTransformer(n_quantiles=10),
    "pca": lambda: decomposition.PCA(3, whiten=True),
    "svd": lambda: decomposition.TruncatedSVD(3),
}


def exported(model: Any, width: int | None = 5, texts: bool = False, **options: Any) -> Any:
    """The model as a file of opset 17; options are skl2onnx's for the last step."""
    kind = (StringTensorType if texts else FloatTensorType)([None] if width is None else [None, width])
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return skl2onnx.convert_sklearn(
            model, initial_types=[("rows", kind)], options={id(last): options} if options else None,
            target_opset={"": 17, "ai.onnx.ml": 3},
        )  # fmt: skip


def check(proto: Any, rows: Any, *wanted: Any, targets: tuple[str, ...] = ("onnx", "reference"), rtol: float = 1e-4) -> None:
    """Holds what the model gives against what scikit-learn does; names, types and maps as the file has them."""
    for target in targets:
        net = isthmus.compile(proto, target=target)
        found = net(rows)
        assert list(found) == [each.name for each in proto.graph.output]
        for mine, theirs in zip(found.values(), wanted, strict=False):
            if isinstance(mine, list):
                assert mine[0].keys() == theirs[0].keys()
                mine, theirs = ([list(row.values()) for row in each] for each in (mine, theirs))
            mine, theirs = np.asarray(mine), np.asarray(theirs)
            if theirs.dtype.kind in "iUO":
                np.testing.assert_array_equal(mine, theirs.reshape(mine.shape))
            else:
                np.testing.assert_allclose(mine, theirs.reshape(mine.shape), rtol=rtol, atol=1e-5)
        if target == "onnx":
            net.artefact.validate()
            net.verify(inputs=[(rows,)])


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(name: str) -> None:
    model = CLASSIFIERS[name]().fit(ROWS, CLASSES)
    scores = model.decision_function if name == "linear_svc" else model.predict_proba
    options = {} if name == "linear_svc" else {"zipmap": False}
    check(exported(model, **options), FRESH, model.predict(FRESH), scores(FRESH))


@pytest.mark.parametrize("labels", [CLASSES, NAMES], ids=["numbers", "texts"])
def test_dicts_of_probabilities(labels: Any) -> None:
    model = linear_model.LogisticRegression().fit(ROWS, labels)
    rows = [dict(zip(model.classes_.tolist(), row, strict=True)) for row in model.predict_proba(FRESH)]
    check(exported(model), FRESH, model.predict(FRESH), rows)
    net = isthmus.compile(exported(model), target="onnx")
    assert any("ZipMap" in note and "opaque" in note for note in net.report.notes)


def test_support_vectors() -> None:
    """ONNX's own evaluator is wrong about the probabilities of three classes, and is not asked."""
    model = svm.SVC(probability=True, random_state=0).fit(ROWS, CLASSES)
    proto = exported(model, zipmap=False)
    check(proto, FRESH, model.predict(FRESH), model.predict_proba(FRESH), targets=("onnx",))
    with pytest.raises(UnsupportedError, match="wrong probabilities"):
        isthmus.compile(proto, target="reference")
    two = svm.SVC(probability=True, random_state=0).fit(ROWS[CLASSES < 2], CLASSES[CLASSES < 2])
    check(exported(two, zipmap=False), FRESH, two.predict(FRESH), two.predict_proba(FRESH))


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name: str) -> None:
    model = REGRESSORS[name]().fit(ROWS, TARGET)
    check(exported(model), FRESH, model.predict(FRESH), rtol=1e-3 if name == "process" else 1e-4)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers(name: str) -> None:
    model = TRANSFORMERS[name]().fit(ROWS)
    check(exported(model), FRESH, model.transform(FRESH))


def test_holes_are_filled() -> None:
    model = impute.SimpleImputer(strategy="median").fit(HOLES)
    check(exported(model), HOLES[:5], model.transform(HOLES[:5]))


def test_clusters_outliers_and_mixtures() -> None:
    means = cluster.KMeans(3, n_init=2, random_state=0).fit(ROWS)
    check(exported(means), FRESH, means.predict(FRESH), means.transform(FRESH))
    outliers = ensemble.IsolationForest(n_estimators=4, random_state=0).fit(ROWS)
    check(exported(outliers), FRESH, outliers.predict(FRESH), outliers.decision_function(FRESH))
    mixed = mixture.GaussianMixture(2, random_state=0).fit(ROWS.astype(np.float64))
    check(exported(mixed), FRESH, mixed.predict(FRESH), mixed.predict_proba(FRESH), rtol=1e-2)


@pytest.mark.parametrize("kind", [preprocessing.OneHotEncoder, preprocessing.OrdinalEncoder])
def test_categories(kind: Any) -> None:
    model = kind().fit(WORDS)
    wanted = model.transform(WORDS[:5])
    check(exported(model, 2, texts=True), WORDS[:5], wanted.toarray() if hasattr(wanted, "toarray") else wanted)


@pytest.mark.parametrize("kind", [CountVectorizer, TfidfVectorizer])
def test_texts(kind: Any) -> None:
    model = kind(ngram_range=(1, 2)).fit(TEXTS)
    fresh = np.array(["red fox sky", "dogs RUNS a", "nothing known"], object)
    check(exported(model, None, texts=True, locale="C"), fresh, model.transform(fresh).toarray(), targets=("onnx",))


def test_arithmetic_is_the_irs_own() -> None:
    """Scaling and a linear model are no opaque nodes: constants fold, and every target has them."""
    model = make_pipeline(preprocessing.StandardScaler(), linear_model.Ridge()).fit(ROWS, TARGET)
    net = isthmus.compile(exported(model), target="onnx")
    assert not any("opaque" in note for note in net.report.notes)
    assert net.artefact.op_counts.keys() <= {"Sub", "Mul", "Gemm"}
