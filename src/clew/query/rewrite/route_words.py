"""The words by which routing knows the kind of a question, in English, German, French, Spanish, Portuguese, Italian and
Dutch. The tables are data for `route`.
"""

import re

from clew.core.text import tokenize_words

# How a question may name the strategy it wants.
STRATEGY_NAMES = (
    (r"multi[\s-]?quer(?:y|ies)", "multi_query"),
    (r"re-?rank(?:ing|ed|er)?|cross-?encoder", "rerank"),
    (r"self[\s-]?reflect(?:ion|ive)|reflection", "self_reflective"),
    (r"document[\s-]?boost(?:ing|ed)?", "document_boost"),
    (
        r"hybrid(?:\s+search)?|hybride\w*\s+suche|recherche\s+hybride|(?:busca|búsqueda|ricerca)\s+(?:híbrida|ibrida)",
        "hybrid",
    ),
    (
        r"(?:lexical|keywords?|full[\s-]?text)(?:\s+search)?|bm25|stichwort-?suche|volltext-?suche|recherche\s+par\s+mots-clés"
        r"|(?:busca|búsqueda)\s+(?:lexical|léxica|por\s+palabras?\s+clave|por\s+palavras?[\s-]chave)",
        "lexical",
    ),
    (
        r"(?:semantic|vector)(?:\s+search)?|semantische[rn]?\s+suche|recherche\s+sémantique"
        r"|(?:busca|búsqueda|ricerca)\s+sem[aâá]ntica",
        "semantic",
    ),
)
# What comes before such a name; "do we use semantic search?" is about something else.
WITH = r"(?:use|using|with|via|through|by|try|mit|per|avec|par|con|com|por|usando|usa|met)"

_NOUNS = (
    r"document|polic(?:y|ies)|guide|guidelines?|page|text(?![\s-]+search)|report|manual|handbook|contract|agreement|procedure"
    r"|article|paper|file|terms"
)
_NOUNS_DE_NL = (
    r"dokument|document|richtlinien?|leitfaden|handbuch|handboek|vertrag|contract|bericht|rapport|text|tekst|seite|pagina|anleitung"
    r"|handleiding|artikel"
)
_NOUNS_ROMANCE = (
    r"documento?|contrato|contratto|contrat|informe|relatório|rapporto|rapport|manuale?|manuel|gu[ií]a|guida|guide|texto|testo|texte"
    r"|página|pagina|page|política|politica|politique|règlement|artículo|artigo|articolo|article"
)
WHOLE_DOCUMENT = re.compile(
    rf"\b(?:complete|full|entire|whole)\b[^.?!]{{0,40}}?\b(?:{_NOUNS})\b"
    rf"|\b(?:{_NOUNS})\s+(?:in\s+full|in\s+its\s+entirety)\b"
    r"|\ball of the (?:document|page|text)\b"
    rf"|\b(?:vollständige|ganze|gesamte|komplette|volledige|hele|complete)[rsn]?\s+(?:{_NOUNS_DE_NL})\b"
    rf"|\b(?:{_NOUNS_ROMANCE})\s+(?:complet[oae]?|complète|enter[oa]|enti[eè]re?|intero|intera|inteir[oa]|ínte[rg]+[oa]|intégrale?|integrale?"
    r"|na\s+íntegra|por\s+completo|en\s+entier)\b"
    rf"|\b(?:tout\s+le|todo\s+[eo]l?|tutto\s+il|l['’]intero|l['’]intégralité\s+d[eu])\s+(?:{_NOUNS_ROMANCE})\b",
    re.IGNORECASE,
)
PRECISE = frozenset(
    tokenize_words(
        """
    legal legally law laws lawful contract contractual liability liable clause compliance regulation regulatory gdpr
    hipaa statute litigation lawsuit court warranty indemnity licence licensing
    medical medicine medication dosage dose diagnosis diagnose patient patients drug drugs symptom symptoms clinical
    therapy prescription contraindication allergy allergic disease surgery vaccine
    financial finance tax taxes taxation vat invoice audit interest mortgage revenue dividend accounting deductible
    penalty payroll

    vertrag vertraglich haftung gesetz gesetzlich rechtlich klausel dsgvo gewährleistung dosis dosierung patienten
    medikament medikamente nebenwirkungen steuer steuern mehrwertsteuer umsatzsteuer rechnung zinsen
    contrat juridique loi légal légale clauses responsabilité rgpd posologie diagnostic médicament médicaments
    impôt impôts taxe tva facture
    contrato ley cláusula responsabilidad diagnóstico paciente pacientes medicamento medicamentos impuesto impuestos iva
    factura lei responsabilidade lgpd dosagem imposto impostos fatura
    contratto legge legale clausola responsabilità dosaggio diagnosi paziente pazienti farmaco farmaci imposta imposte
    fattura
    wettelijk clausule aansprakelijkheid dosering patiënt patiënten medicijn medicijnen belasting btw factuur
    """
    )
)
RESEARCH = re.compile(
    r"\b(?:implications?|impacts?|consequences|trade-?offs?|pros and cons|advantages and disadvantages|ethical|"
    r"ethics of|"
    r"compare|comparison|analy[sz]e|analysis|evaluate|assess(?:ment)?|relationship between|investigate|root causes?|"
    r"in what ways|to what extent|how (?:does|do|did|would|could) .+ (?:affect|influence|relate|differ|interact)"
    r"|auswirkung(?:en)?|vor-? und nachteile|vergleich(?:e|en)?|analysieren?|bewerten?|inwiefern|inwieweit"
    r"|zusammenhang zwischen|wie (?:beeinflusst|beeinflussen|wirkt sich)"
    r"|conséquences|avantages et (?:les )?inconvénients|compare[rz]|comparaison|analyse[rz]|évalue[rz]?"
    r"|dans quelle mesure|relation entre"
    r"|implicaciones|consecuencias|impacto|ventajas y desventajas|compara[r]?|comparación|analiza[r]?|evalúa|evaluar"
    r"|en qué medida|relación entre"
    r"|implicações|consequências|vantagens e desvantagens|compar[ae]r?|comparação|analis[ae]r?|análise|avali[ae]r?"
    r"|em que medida|relação entre"
    r"|implicazioni|conseguenze|impatto|vantaggi e svantaggi|confronta(?:re)?|confronto|analizza(?:re)?|analisi"
    r"|valutare|in che misura|relazione tra"
    r"|gevolgen|implicaties|voor- en nadelen|vergelijk(?:en|ing)?|analyseer|in hoeverre|verband tussen)\b",
    re.IGNORECASE,
)
BROAD = re.compile(
    r"^\W*(?:(?:please\s+)?(?:can|could) you\s+)?(?:i (?:want|need)\s+|(?:give|show|send) me\s+|find\s+)?"
    r"(?:tell me (?:more )?about|what about|(?:an )?overview of|"
    r"give me an overview|everything (?:(?:that )?(?:you|we) (?:have|know) )?(?:about|on)|information (?:about|on)|"
    r"what do (?:we|you) (?:know|have) (?:about|on)|"
    r"explore|describe|introduction to|anything (?:about|on))\b"
    r"|^\W*(?:erzähl(?:e|en sie)?\s+(?:mir|uns)\s+(?:mehr\s+)?(?:über|von)|was (?:wissen|haben) wir (?:über|zu)"
    r"|(?:einen? )?überblick über|alles (?:über|zu)|informationen (?:über|zu)|beschreiben?|einführung in"
    r"|parle[zs]?[\s-]moi d|di(?:s|tes)[\s-]moi (?:plus |tout )?(?:sur|à propos)|que sait[\s-]on (?:de|sur)"
    r"|que savons[\s-]nous (?:de|sur)"
    r"|tout (?:savoir )?sur|(?:un )?aperçu d|informations? sur|déc(?:ris|rivez)"
    r"|(?:h[aá]bl|cu[eé]nt)[ae](?:me|nos) (?:m[aá]s )?(?:de|sobre|acerca)|qué sabemos (?:de|sobre)"
    r"|todo (?:sobre|acerca)|información (?:sobre|de)|describ[ae]|introducción a"
    r"|(?:me )?(?:fal|cont)[ae](?:[\s-]me|[\s-]nos)? (?:mais )?(?:sobre|de|do|da)|o que sabemos (?:sobre|de)|tudo sobre"
    r"|(?:uma )?visão geral d|informaç(?:ões|ão) sobre|descrev[ae]|introdução a"
    r"|parlami (?:di|del)|dimmi (?:di più )?(?:di|su|del)|(?:che )?cosa sappiamo (?:di|su)|tutto su|(?:una )?panoramica"
    r"|informazioni su|descrivi|introduzione a"
    r"|vertel (?:me|mij|ons) (?:meer )?over|wat weten we (?:over|van)|alles over|(?:een )?overzicht van|informatie over"
    r"|beschrijf|inleiding (?:in|tot))",
    re.IGNORECASE,
)
