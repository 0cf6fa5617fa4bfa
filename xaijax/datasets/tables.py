"""Loads the data sets: wine, diabetes, arrests, bike, cervical, titanic, adult."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.datasets.fetch import Table, TableFile, find, optional

if TYPE_CHECKING:
    from pandas import DataFrame

# The names and the order of the columns in the federated Shapley experiment, from the raw names.
SHAP_COLUMNS = {
    "age": "Age",
    "native-country": "Country",
    "education-num": "Education-Num",
    "marital-status": "Marital Status",
    "relationship": "Relationship",
    "race": "Race",
    "sex": "Sex",
    "capital-gain": "Capital Gain",
    "capital-loss": "Capital Loss",
    "workclass": "Workclass",
    "occupation": "Occupation",
    "hours-per-week": "Hours per week",
}
# shap codes them in this order, from the farthest of the family to the closest.
_RELATIONSHIPS = ("Not-in-family", "Unmarried", "Other-relative", "Own-child", "Husband", "Wife")


@functools.cache
def files() -> dict[str, TableFile]:
    """The files of the data sets, which tables.toml lists."""
    text = resources.files("xaijax.datasets").joinpath("tables.toml").read_text("utf-8")
    return {name: TableFile(**fields) for name, fields in tomllib.loads(text).items()}


def _read(name: str, *dropped: str, **options: Any) -> Table:
    """Reads a file as comma-separated values; options go to `pandas.read_csv`."""
    file, pandas = files()[name], optional("pandas")
    checked = find(file)
    frame = pandas.read_csv(checked.path, names=file.columns, **options)
    y = frame.pop(file.target)
    return Table(frame.drop(columns=list(dropped)), y, file.source, (checked,))


def _stacked(*parts: Table) -> Table:
    """Joins the rows of all parts, one part after the other."""
    concat = optional("pandas").concat
    X, y = (concat([getattr(part, of) for part in parts], ignore_index=True) for of in ("X", "y"))
    return Table(X, y, parts[0].source, tuple(file for part in parts for file in part.files))


def _known(value: Any, name: str, accepted: tuple[str, ...]) -> Any:
    """The value; raises InputError unless it is one of those accepted."""
    if not isinstance(value, str) or value not in accepted:
        raise InputError(f"{name} must be one of {list(accepted)}, got {value!r:.40}.")
    return value


@public
def wine() -> Table:
    """Wine quality: 1,599 red wines, then 4,898 white ones; 11 measurements.

    Returns:
        A `Table`; y is int [6497], `quality`: a mark from 3 to 9, for regressions.

    {table}

    Example:
        >>> import xaijax as xj
        >>> X, y = xj.datasets.wine()  # doctest: +SKIP
        >>> X.shape, y.name  # doctest: +SKIP
        ((6497, 11), 'quality')

    References:
        Cortez and others, "Wine Quality" (2009), UCI Machine Learning Repository,
        https://archive.ics.uci.edu/dataset/186/wine+quality
    """
    return _stacked(_read("wine-red", sep=";"), _read("wine-white", sep=";"))


@public
def diabetes() -> Table:
    """Diabetes health indicators of the survey BRFSS 2015: 253,680 people, 21 columns.

    The file cannot be downloaded without an account, so it must be in the folder `XAIJAX_DATA` or
    in the cache; the error says where to get it.

    Returns:
        A `Table`; y is int [253680], `Diabetes_binary`: 1 for diabetes or prediabetes.

    {table}

    Example:
        >>> import xaijax as xj
        >>> X, y = xj.datasets.diabetes()  # doctest: +SKIP
        >>> X.shape, y.name  # doctest: +SKIP
        ((253680, 21), 'Diabetes_binary')

    References:
        Teboul (2021), from the CDC's BRFSS 2015,
        https://www.kaggle.com/datasets/alexteboul/diabetes-health-indicators-dataset
    """
    table = _read("diabetes")
    return replace(table, y=table.y.astype("int64"))


@public
def arrests() -> Table:
    """Arrests in the National Longitudinal Survey of Youth 1997: 8,984 people, 6 columns.

    The person's number, `PUBID.1997`, is left out: it has no information and identifies people.

    Returns:
        A `Table`; y is bool [8984], `arrested`: whether `TOTAL_ARRESTS` is above 0, the target of
        the QII paper.

    {table}

    Example:
        >>> import xaijax as xj
        >>> X, y = xj.datasets.arrests()  # doctest: +SKIP
        >>> X.shape, y.name  # doctest: +SKIP
        ((8984, 6), 'arrested')

    References:
        NLSY97, as prepared by the authors of QII,
        https://github.com/cmu-transparency/tool-qii/tree/master/data/nlsy97
    """
    table = _read("arrests", "PUBID.1997", skipinitialspace=True)
    return replace(table, y=(table.y > 0).rename("arrested"))


@public
def bike(reading: Literal["raw", "anchors"] = "raw") -> Table:
    """Bike rentals of 731 days.

    Args:
        reading: "raw": 13 columns of `day.csv`, without `casual` and `registered`, whose sum is the
            target. "anchors": 11 columns, the table of the Anchors chapter, with named seasons and
            weather, degrees, per cent and km/h. There is no address to download it from.

    Returns:
        A `Table`; y is int [731], `cnt`: the number of bikes rented on the day.

    {table}
        InputError: a reading that there is not.

    Example:
        >>> import xaijax as xj
        >>> X, y = xj.datasets.bike()  # doctest: +SKIP
        >>> X.shape, y.name  # doctest: +SKIP
        ((731, 13), 'cnt')

    References:
        Fanaee-T, "Bike Sharing" (2013), UCI Machine Learning Repository,
        https://archive.ics.uci.edu/dataset/275/bike+sharing+dataset. "anchors" is as prepared for
        https://github.com/viadee/anchorsOnR.
    """
    if _known(reading, "reading", ("raw", "anchors")) == "anchors":
        return _read("bike-anchors")
    return _read("bike", "casual", "registered")


@public
def cervical(reading: Literal["raw", "anchors"] = "raw") -> Table:
    """Risk factors of cervical cancer: 858 women.

    Args:
        reading: "raw": the 32 risk factors of the file, missing ones NaN, without the three other
            targets (Hinselmann, Schiller, Citology). "anchors": 15 columns, the table of the
            Anchors chapter, missing values replaced by the most frequent one. There is no address
            to download it from.

    Returns:
        A `Table`; y is `Biopsy` [858]: 1 for cancer, else 0. In the reading "anchors" it is the
        text "Cancer" or "Healthy".

    {table}
        InputError: a reading that there is not.

    Example:
        >>> import xaijax as xj
        >>> X, y = xj.datasets.cervical()  # doctest: +SKIP
        >>> X.shape, y.name  # doctest: +SKIP
        ((858, 32), 'Biopsy')

    References:
        Fernandes and others, "Cervical Cancer (Risk Factors)" (2017), UCI Machine Learning
        Repository, https://archive.ics.uci.edu/dataset/383/cervical+cancer+risk+factors. "anchors"
        is as prepared for https://github.com/viadee/anchorsOnR.
    """
    if _known(reading, "reading", ("raw", "anchors")) == "anchors":
        return _read("cervical-anchors")
    return _read("cervical", "Hinselmann", "Schiller", "Citology", na_values="?")


@public
def titanic() -> Table:
    """Passengers of the Titanic: 891 people, 11 columns, with missing values (NaN) and free texts.

    Returns:
        A `Table`; y is int [891], `Survived`: 0 or 1.

    {table}

    Example:
        >>> import xaijax as xj
        >>> X, y = xj.datasets.titanic()  # doctest: +SKIP
        >>> X.shape, y.name  # doctest: +SKIP
        ((891, 11), 'Survived')

    References:
        Kaggle's Titanic training table, https://github.com/datasciencedojo/datasets
    """
    return _read("titanic")


@public
def adult(
    reading: Literal["raw", "qii", "shap"] = "raw",
    *,
    part: Literal["train", "test", "all"] = "train",
) -> Table:
    """Adult census income: whether a person earns more than 50,000 dollars a year.

    Missing values stay the text "?" of the file; in "shap" it has a code like any other text.

    Args:
        reading: "raw": the 14 columns of the file. "qii": 13 columns, without `fnlwgt`. "shap": 12
            columns of numbers as in `shap.datasets.adult`, without `fnlwgt` and `education`, in the
            order of the federated Shapley experiment. In "shap" numbers are float32, a text is its
            position among the training file's sorted texts, and `relationship` is coded by a list
            from the farthest of the family to the closest.
        part: "train" (`adult.data`, 32,561 rows), "test" (`adult.test`, 16,281 rows) or "all",
            train then test.

    Returns:
        A `Table`; y is bool [N], `income`: True for more than 50,000 dollars.

    {table}
        InputError: there is no such reading or part.

    Example:
        >>> import xaijax as xj
        >>> X, y = xj.datasets.adult()  # doctest: +SKIP
        >>> X.shape, y.name  # doctest: +SKIP
        ((32561, 14), 'income')

    References:
        Becker and Kohavi, "Adult" (1996), UCI Machine Learning Repository,
        https://archive.ics.uci.edu/dataset/2/adult
    """
    _known(reading, "reading", ("raw", "shap", "qii"))
    _known(part, "part", ("train", "test", "all"))
    parts = [_part(name) for name in (("train", "test") if part == "all" else (part,))]
    table = _stacked(*parts)
    if reading == "qii":
        return replace(table, X=table.X.drop(columns="fnlwgt"))
    if reading == "shap":
        # The test part lacks one country: codes of its own would not be the training codes.
        train = _part("train") if part == "test" else parts[0]
        return replace(table, X=_codes(table.X, train.X))
    return table


def _part(part: str) -> Table:
    """A part of Adult; "|" begins the first line of adult.test, whose labels end with a dot."""
    options: dict[str, Any] = {"skipinitialspace": True, "keep_default_na": False, "comment": "|"}
    table = _read(f"adult-{part}", **options)
    return replace(table, y=table.y.str.rstrip(".") == ">50K")


def _codes(frame: DataFrame, train: DataFrame) -> DataFrame:
    pandas = optional("pandas")
    coded = {}
    for raw, name in SHAP_COLUMNS.items():
        if raw == "relationship":
            codes = pandas.Categorical(frame[raw], categories=list(_RELATIONSHIPS)).codes
            coded[name] = codes.astype("int64")
        elif pandas.api.types.is_numeric_dtype(train[raw]):
            coded[name] = frame[raw].astype("float32")
        else:
            values = sorted(train[raw].unique())
            coded[name] = pandas.Categorical(frame[raw], categories=values).codes
    return pandas.DataFrame(coded)
