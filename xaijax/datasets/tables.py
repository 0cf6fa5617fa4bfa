"""The tables of one file, or of two that are stacked: wine, diabetes, arrests, bike, and others."""

from __future__ import annotations

from typing import Literal

from xaijax.core.public import public
from xaijax.datasets.fetch import TableFile, optional
from xaijax.datasets.table import Table, choose, read

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"

# The second digest of each is a copy in circulation without quotes around the column names and
# without the last line's end; its rows are the same bytes.
_WINE_PAGE = "https://archive.ics.uci.edu/dataset/186/wine+quality"
WINE_RED = TableFile(
    place="wine/winequality-red.csv",
    sha256=(
        "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
        "2cb56933026c2e795a1f6e57fe6580d478ea546a998dbfdeb3ab1c587b3dd51c",
    ),
    page=_WINE_PAGE,
    url=f"{_UCI}/wine-quality/winequality-red.csv",
)
WINE_WHITE = TableFile(
    place="wine/winequality-white.csv",
    sha256=(
        "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
        "f3adff35a35060bdc238d76975030f6ac1d4f43be48739b17b2a628470c422f6",
    ),
    page=_WINE_PAGE,
    url=f"{_UCI}/wine-quality/winequality-white.csv",
)
DIABETES = TableFile(
    place="diabetes/diabetes_binary_health_indicators_BRFSS2015.csv",
    sha256=("19f367e3e3350768f0c144c5d73ee5b355f67a57eaaa86ca7bd8aec594d8b1d0",),
    # An account is needed there, so there is no address to download from.
    page="https://www.kaggle.com/datasets/alexteboul/diabetes-health-indicators-dataset",
)
ARRESTS = TableFile(
    place="nlsy97/processed_output.csv",
    sha256=("8fcf22b8d2266a0c62b14a9077eb6207e18179df89ca299539ce7f360debdaa9",),
    page="https://github.com/cmu-transparency/tool-qii/tree/master/data/nlsy97",
    url=(
        "https://raw.githubusercontent.com/cmu-transparency/tool-qii/"
        "81ce870310e80aa91252f2d27f0c4d77cabe72ea/data/nlsy97/20151026/processed_output.csv"
    ),
)
_BIKE_PAGE = "https://archive.ics.uci.edu/dataset/275/bike+sharing+dataset"
BIKE = TableFile(
    place="bike/day.csv",
    sha256=("a6bcf826782d3c0fbfdcbeead17cd0884185a0dafe8ff10cd48a874ee7ba18be",),
    page=_BIKE_PAGE,
    url=f"{_UCI}/00275/Bike-Sharing-Dataset.zip",
    member="day.csv",
    archive_sha256="b70182d0d0508e9abbb79306ce5c0cec34869000f8220175ac83d11dbe845401",
)
_ANCHORS_PAGE = "https://github.com/viadee/anchorsOnR"
BIKE_ANCHORS = TableFile(
    place="bike/bike_anchorsOnR.csv",
    sha256=("aee20bbf811f94b4927873c4ef1977d8fff9f54718e4585904bf29da69c4441e",),
    page=_ANCHORS_PAGE,
)
_CERVICAL_PAGE = "https://archive.ics.uci.edu/dataset/383/cervical+cancer+risk+factors"
CERVICAL = TableFile(
    place="cervical/risk_factors_cervical_cancer.csv",
    sha256=("8df193ad5c9ff4288fb4c401eef70dcd2cbda404ce7f82ac74c68cfc960ab063",),
    page=_CERVICAL_PAGE,
    url=f"{_UCI}/00383/risk_factors_cervical_cancer.csv",
)
CERVICAL_ANCHORS = TableFile(
    place="cervical/cervical_anchorsOnR.csv",
    sha256=("3357718eef1e934a3e4fc1a62c98b6bbc54d6c7d86a0afad83b254c5003111a8",),
    page=_ANCHORS_PAGE,
)
TITANIC = TableFile(
    place="titanic/titanic.csv",
    sha256=("4a437fde05fe5264e1701a7387ac6fb75393772ba38bb2c9c566405af5af4bd7",),
    page="https://github.com/datasciencedojo/datasets",
    url=(
        "https://raw.githubusercontent.com/datasciencedojo/datasets/"
        "f0ccab6a7ceafdff780052166fb6fab3311398eb/titanic.csv"
    ),
)

_ARRESTS_COLUMNS = (
    "PUBID.1997",
    "KEY!SEX.1997",
    "KEY!BDATE_Y.1997",
    "CV_CENSUS_REGION.1997",
    "KEY!RACE_ETHNICITY.1997",
    "TOTAL_ARRESTS",
    "HAS_DRUGS",
    "HAS_SMOKED",
)


@public
def wine() -> Table:
    """Wine quality: 1,599 red wines, then 4,898 white ones; 11 measurements.

    Returns:
        A `Table`; y is int [6497], `quality`: a mark from 3 to 9, for regressions.

    Raises:
        DataNotFoundError: the file is not found and cannot be downloaded.
        DataHashError: a file is there, but its bytes are others.
        MissingExtraError: the extra [data] is not installed.

    Example:
        >>> import xaijax as xj
        >>> X, y = xj.datasets.wine()  # doctest: +SKIP
        >>> X.shape, y.name  # doctest: +SKIP
        ((6497, 11), 'quality')

    References:
        Cortez and others, "Wine Quality" (2009), UCI Machine Learning Repository,
        https://archive.ics.uci.edu/dataset/186/wine+quality
    """
    pandas = optional("pandas")
    (red, first), (white, second) = read(WINE_RED, sep=";"), read(WINE_WHITE, sep=";")
    frame = pandas.concat([red, white], ignore_index=True)
    y = frame.pop("quality")
    source = f"Cortez and others (2009), Wine Quality, UCI, {_WINE_PAGE}"
    return Table(frame, y, source, (first, second))


@public
def diabetes() -> Table:
    """Diabetes health indicators of the survey BRFSS 2015: 253,680 people, 21 columns.

    The file cannot be downloaded without an account, so it must be in the folder `XAIJAX_DATA` or
    in the cache; the error says where to get it.

    Returns:
        A `Table`; y is int [253680], `Diabetes_binary`: 1 for diabetes or prediabetes.

    Raises:
        DataNotFoundError: the file is not found and cannot be downloaded.
        DataHashError: a file is there, but its bytes are others.
        MissingExtraError: the extra [data] is not installed.

    Example:
        >>> import xaijax as xj
        >>> X, y = xj.datasets.diabetes()  # doctest: +SKIP
        >>> X.shape, y.name  # doctest: +SKIP
        ((253680, 21), 'Diabetes_binary')

    References:
        Teboul (2021), from the CDC's BRFSS 2015,
        https://www.kaggle.com/datasets/alexteboul/diabetes-health-indicators-dataset
    """
    frame, found = read(DIABETES)
    y = frame.pop("Diabetes_binary").astype("int64")
    source = f"Teboul (2021), from the CDC's BRFSS 2015, {DIABETES.page}"
    return Table(frame, y, source, (found,))


@public
def arrests() -> Table:
    """Arrests in the National Longitudinal Survey of Youth 1997: 8,984 people, 6 columns.

    The person's number, `PUBID.1997`, is left out: it says nothing and identifies.

    Returns:
        A `Table`; y is bool [8984], `arrested`: whether `TOTAL_ARRESTS` is above 0, the target of
        the QII paper.

    Raises:
        DataNotFoundError: the file is not found and cannot be downloaded.
        DataHashError: a file is there, but its bytes are others.
        MissingExtraError: the extra [data] is not installed.

    Example:
        >>> import xaijax as xj
        >>> X, y = xj.datasets.arrests()  # doctest: +SKIP
        >>> X.shape, y.name  # doctest: +SKIP
        ((8984, 6), 'arrested')

    References:
        NLSY97, as prepared by the authors of QII,
        https://github.com/cmu-transparency/tool-qii/tree/master/data/nlsy97
    """
    frame, found = read(ARRESTS, names=list(_ARRESTS_COLUMNS), skipinitialspace=True)
    y = (frame.pop("TOTAL_ARRESTS") > 0).rename("arrested")
    source = f"NLSY97, as prepared by the authors of QII, {ARRESTS.page}"
    return Table(frame.drop(columns="PUBID.1997"), y, source, (found,))


@public
def bike(reading: Literal["raw", "anchors"] = "raw") -> Table:
    """Bike rentals of 731 days.

    Args:
        reading: "raw": 13 columns of `day.csv`, without `casual` and `registered`, whose sum is the
            target. "anchors": 11 columns, the table of the Anchors chapter, with named seasons and
            weather, degrees, per cent and km/h. There is no address to download it from.

    Returns:
        A `Table`; y is int [731], `cnt`: the number of bikes rented on the day.

    Raises:
        InputError: a reading that there is not.
        DataNotFoundError: the file is not found and cannot be downloaded.
        DataHashError: a file is there, but its bytes are others.
        MissingExtraError: the extra [data] is not installed.

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
    anchors = choose("reading", reading, ("raw", "anchors")) == "anchors"
    frame, found = read(BIKE_ANCHORS if anchors else BIKE)
    y = frame.pop("cnt")
    if not anchors:
        frame = frame.drop(columns=["casual", "registered"])
    source = f"Fanaee-T (2013), Bike Sharing, UCI, {_BIKE_PAGE}"
    if anchors:
        source += f", as prepared for {_ANCHORS_PAGE}"
    return Table(frame, y, source, (found,))


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

    Raises:
        InputError: a reading that there is not.
        DataNotFoundError: the file is not found and cannot be downloaded.
        DataHashError: a file is there, but its bytes are others.
        MissingExtraError: the extra [data] is not installed.

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
    anchors = choose("reading", reading, ("raw", "anchors")) == "anchors"
    frame, found = read(CERVICAL_ANCHORS) if anchors else read(CERVICAL, na_values="?")
    y = frame.pop("Biopsy")
    if not anchors:
        frame = frame.drop(columns=["Hinselmann", "Schiller", "Citology"])
    source = f"Fernandes and others (2017), Cervical Cancer (Risk Factors), UCI, {_CERVICAL_PAGE}"
    if anchors:
        source += f", as prepared for {_ANCHORS_PAGE}"
    return Table(frame, y, source, (found,))


@public
def titanic() -> Table:
    """Passengers of the Titanic: 891 people, 11 columns, with missing values (NaN) and free texts.

    Returns:
        A `Table`; y is int [891], `Survived`: 0 or 1.

    Raises:
        DataNotFoundError: the file is not found and cannot be downloaded.
        DataHashError: a file is there, but its bytes are others.
        MissingExtraError: the extra [data] is not installed.

    Example:
        >>> import xaijax as xj
        >>> X, y = xj.datasets.titanic()  # doctest: +SKIP
        >>> X.shape, y.name  # doctest: +SKIP
        ((891, 11), 'Survived')

    References:
        Kaggle's Titanic training table, https://github.com/datasciencedojo/datasets
    """
    frame, found = read(TITANIC)
    y = frame.pop("Survived")
    return Table(frame, y, f"Kaggle's Titanic training table, {TITANIC.page}", (found,))
