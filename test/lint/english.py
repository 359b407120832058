"""Counts the phrases of english.txt in each area: see english.sh."""
import bisect
import glob
import re
import sys

LIST = 'test/lint/english.txt'


def sources(top):
    for end in 'c', 'h', 'def':
        yield from (f for f in glob.glob(f'{top}/**/*.{end}', recursive=True) if '/data/' not in f)


AREAS = {
    'README': ['README.md'], 'docs': glob.glob('docs/*.md') + glob.glob('docs/[!d]*/*.md') + glob.glob('test/reports/*.md'), 'ARCHITECTURE': ['ARCHITECTURE.md', *glob.glob('docs/decisions/*.md')],
    'HACKING': ['HACKING.md', *glob.glob('test/**/README.md', recursive=True)], 'texts': list(sources('src')), 'comments': list(sources('src')),
    'tests': list(sources('test')),
}


def markdown(text):
    """Code is data: blocks, text in backticks, and titles of tests."""
    text = re.sub(r'^ *```.*?^ *```$', lambda m: '\n' * m[0].count('\n'), text, flags=re.M | re.S)
    text = re.sub(r'(?m)^(    |\t)(?! *[*-] ).*$', '', text)
    return re.sub(r'`[^`\n]*`|\b(VM|kube|e2e|api|main|external) "[^"]*"', 'X', text)


def comments(text):
    """The block comments; lines outside of them become empty, and the star of each line is removed."""
    keep = []
    end = 0
    for m in re.finditer(r'"(?:\\.|[^"\\\n])*"|/\*(.*?)\*/', text, re.S):
        keep.append('\n' * text.count('\n', end, m.start()))
        body = re.sub(r'(?m)^[ \t]*\*', '', m[1]) if m[1] is not None else ''
        keep.append(body + '.' if m[1] is not None else '')
        end = m.end()
    return ''.join(keep)


def texts(text):
    """The string literals outside of comments that have three words or more."""
    keep = []
    end = 0
    for m in re.finditer(r'/\*.*?\*/|"((?:\\.|[^"\\\n])*)"', text, re.S):
        keep.append('\n' * text.count('\n', end, m.start()))
        if m[1] is None:
            keep.append('\n' * m[0].count('\n'))
        elif re.search(r'[a-z]+ [a-z%]+ [a-z%]+', m[1]):
            keep.append(m[1].replace('\\n', ' ') + '. ')
        end = m.end()
    return ''.join(keep)


def paragraphs(area, path):
    """The text with a line for each paragraph, and for each line of the file its number and where it begins there."""
    with open(path, encoding='utf-8') as file:
        text = file.read()
    read = {'texts': texts, 'comments': comments, 'tests': comments}.get(area, markdown)
    parts, starts, numbers, at = [], [], [], 0
    for number, line in enumerate(read(text).split('\n'), 1):
        line = ' '.join(line.split())
        if line:
            starts.append(at)
            numbers.append(number)
            parts.append(line + ' ')
        elif parts and parts[-1] != '\n':
            parts.append('\n')
        else:
            continue
        at += len(parts[-1])
    return ''.join(parts), starts, numbers


def main(show):
    allowed, phrases = {}, []
    with open(LIST, encoding='utf-8') as file:
        rows = file.readlines()
    for line in rows:
        if line.startswith('#') or not line.strip():
            continue
        first, second, third = line.rstrip('\n').split('\t')
        if first == 'allowed':
            allowed[second] = int(third)
        else:
            phrases.append((first, re.compile(second, re.I | re.M), third))
    bad = 0
    for area, files in AREAS.items():
        n = 0
        for path in sorted(files):
            text, starts, numbers = paragraphs(area, path)
            found = []
            for rule, phrase, instead in phrases:
                for m in phrase.finditer(text):
                    number = numbers[bisect.bisect_right(starts, m.start()) - 1]
                    found.append((number, f'{path}:{number}: "{m[0]}": {instead} (rule {rule})'))
            n += len(found)
            if area in show or path in show:
                for _, line in sorted(found):
                    print(line)
        if show:
            continue
        if n > allowed[area]:
            print(f'{LIST}:1: {area} has {n} of the phrases, more than {allowed[area]}: test/lint/english.sh {area}')
            bad = 1
        elif n < allowed[area]:
            print(f'{area} has {n} of the phrases: lower its number in {LIST}')
    return bad


sys.exit(main(sys.argv[1:]))
