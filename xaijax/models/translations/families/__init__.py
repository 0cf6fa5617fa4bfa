"""Translations of scikit-learn's estimators, a file per family; importing them registers them.

None imports scikit-learn: classes are known by name, and fitted numbers are read as attributes.

Reading order:

    composition       Pipelines and ColumnTransformers
    preprocessing     scalers, imputers and encoders
    linear            linear and logistic models
    naive_bayes       naive Bayes
    neighbours        nearest neighbours
    neural_network    multi-layer perceptrons
    svm               support vector machines
    trees             decision trees, forests and boosted trees, as arrays
"""

from xaijax.models.translations.families import composition as composition
from xaijax.models.translations.families import linear as linear
from xaijax.models.translations.families import naive_bayes as naive_bayes
from xaijax.models.translations.families import neighbours as neighbours
from xaijax.models.translations.families import neural_network as neural_network
from xaijax.models.translations.families import preprocessing as preprocessing
from xaijax.models.translations.families import svm as svm
from xaijax.models.translations.families import trees as trees
