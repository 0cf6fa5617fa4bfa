"""Translations of fitted estimators, a file per family; importing them registers them.

None imports a model's library: classes are known by name, and fitted numbers are read from
attributes, or from the library's own dump.

Reading order:

    composition       Pipelines and ColumnTransformers
    ensembles         bags, votes, stacks, one model for each target or class
    boosters          boosters of XGBoost, LightGBM and CatBoost
    preprocessing     scalers, imputers and encoders
    linear            linear and logistic models
    naive_bayes       naive Bayes
    neighbours        nearest neighbours
    neural_network    multi-layer perceptrons
    svm               support vector machines
    trees             decision trees, forests and boosted trees, as arrays
"""

from xaijax.models.translations.families import boosters as boosters
from xaijax.models.translations.families import composition as composition
from xaijax.models.translations.families import ensembles as ensembles
from xaijax.models.translations.families import linear as linear
from xaijax.models.translations.families import naive_bayes as naive_bayes
from xaijax.models.translations.families import neighbours as neighbours
from xaijax.models.translations.families import neural_network as neural_network
from xaijax.models.translations.families import preprocessing as preprocessing
from xaijax.models.translations.families import svm as svm
from xaijax.models.translations.families import trees as trees
