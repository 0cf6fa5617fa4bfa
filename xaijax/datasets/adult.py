"""Adult census income (UCI), in three readings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from xaijax.core.public import public
from xaijax.datasets.fetch import Found, TableFile, optional
from xaijax.datasets.table import Table, choose, read

if TYPE_CHECKING:
    from pandas import DataFrame

_PAGE = "https://archive.ics.uci.edu/dataset/2/adult"
_FOLDER = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult"
SOURCE = f"Becker and Kohavi (1996), Adult, UCI Machine Learning Repository, {_PAGE}"
TRAIN = TableFile(
    place="adult/adult.data",
    sha256=("5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",),
    page=_PAGE,
    url=f"{_FOLDER}/adult.data",
)
TEST = TableFile(
    place="adult/adult.test",
    sha256=("a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",),
    page=_PAGE,
    url=f"{_FOLDER}/adult.test",
)
COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
)
TARGET = "income"

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
# In this order shap codes them: from the farthest of the family to the closest.
_RELATIONSHIPS = ("Not-in-family", "Unmarried", "Other-relative", "Own-child", "Husband", "Wife")


@public
def adult(
    reading: Literal["raw", "qii", "shap"] = "raw",
    *,
    part: Literal["train", "test", "all"] = "train",
) -> Table:
    """Adult census income: does a person earn more than 50,000 dollars a year?

    Missing values stay what the file has in their place, the text "?"; in "shap" it is a code like
    any other text.

    Args:
        reading: "raw": the 14 columns of the file. "qii": 13 columns, without `fnlwgt`. "shap": 12
            columns of numbers as in `shap.datasets.adult`, without `fnlwgt` and `education`, in the
            order of the federated Shapley experiment. There numbers are float32, a text is its
            position among the training file's sorted texts, and `relationship` is coded by a list
            from the farthest of the family to the closest.
        part: "train" (`adult.data`, 32,561 rows), "test" (`adult.test`, 16,281 rows) or "all",
            train then test.

    Returns:
        A `Table`; y is bool [N], `income`: True for more than 50,000 dollars.

    Raises:
        InputError: a reading or part that there is not.
        DataNotFoundError: the file is not found and cannot be downloaded.
        DataHashError: a file is there, but its bytes are others.
        MissingExtraError: the extra [data] is not installed.

    Example:
        >>> import xaijax as xj
        >>> X, y = xj.datasets.adult()  # doctest: +SKIP
        >>> X.shape, y.name  # doctest: +SKIP
        ((32561, 14), 'income')

    References:
        Becker and Kohavi, "Adult" (1996), UCI Machine Learning Repository,
        https://archive.ics.uci.edu/dataset/2/adult
    """
    choose("reading", reading, ("raw", "shap", "qii"))
    choose("part", part, ("train", "test", "all"))
    pandas = optional("pandas")
    wanted = {"train": (TRAIN,), "test": (TEST,), "all": (TRAIN, TEST)}[part]
    parts = [_read_part(file) for file in wanted]
    frame = pandas.concat([frame for frame, _ in parts], ignore_index=True)
    y = frame.pop(TARGET)
    if reading == "qii":
        frame = frame.drop(columns="fnlwgt")
    if reading == "shap":
        # The test part lacks one country: codes of its own would not be the training codes.
        train = parts[0][0] if wanted[0] is TRAIN else _read_part(TRAIN)[0]
        frame = _codes(frame, train)
    return Table(frame, y, SOURCE, tuple(found for _, found in parts))


def _read_part(file: TableFile) -> tuple[DataFrame, Found]:
    frame, found = read(
        file,
        names=[*COLUMNS, TARGET],
        skipinitialspace=True,
        keep_default_na=False,
        comment="|",  # the first line of adult.test
    )
    frame[TARGET] = frame[TARGET].str.rstrip(".") == ">50K"  # adult.test ends its labels by a dot
    return frame, found


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
